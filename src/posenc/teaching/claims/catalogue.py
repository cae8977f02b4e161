"""All claims by name, and a function that chooses the claims to run."""

from collections.abc import Sequence

from posenc.arguments import one_of
from posenc.teaching.claims import (
    absolute,
    alibi,
    disputed,
    examples,
    order,
    precision,
    properties,
    rotary,
    scaling,
    sinusoids,
    training,
    zoo,
)
from posenc.teaching.claims.claim import Claim

MODULES = (
    order,
    sinusoids,
    absolute,
    rotary,
    alibi,
    scaling,
    precision,
    properties,
    examples,
    training,
    disputed,
    zoo,
)
CLAIMS: dict[str, Claim] = {
    claim.name: claim for module in MODULES for claim in vars(module).values() if isinstance(claim, Claim)
}


def chosen(only: Sequence[str] = (), slow: bool = False) -> list[Claim]:
    """Return the named claims, or all claims if none is named. Without ``slow``, claims that train a model are
    returned only if they are named.
    """
    named = [CLAIMS[one_of("claim", name, CLAIMS)] for name in dict.fromkeys(only)]
    return named or [c for c in CLAIMS.values() if slow or not c.slow]
