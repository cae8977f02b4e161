"""The list of ways to compute attention, what each offers for a call, and the explanation of a choice."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from posenc.attend.call import AttentionCall

Output = tuple[Tensor, Tensor | None]
"""softmax(scores)·v, and the logsumexp of the scores if the backend returns it."""

Offer = tuple[str, Callable[[], Output] | None]
"""Why a way serves a call, and what computes; or why it does not, and None."""
Ask = Callable[[Tensor, Tensor, Tensor, AttentionCall], Offer]


class Way(NamedTuple):
    """A backend: its features besides masks and biases, and its function for offers."""

    has: frozenset[str]
    offer: Ask


class Explanation(NamedTuple):
    """The backend of a call and the reasons, printed with one line per backend.

    Attributes:
        backend: its name.
        reason: why it can serve.
        declined: the earlier backends, each with the reason why it is not used.
    """

    backend: str
    reason: str
    declined: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        declined = (f"  not {name}: {why}" for name, why in self.declined)
        return "\n".join((f"{self.backend}: {self.reason}", *declined))


WAYS: dict[str, Way] = {}
"""By name, in the order of ``ways.py``. The first that has all that a call needs computes it. Sinks need the
logsumexp, which torch's kernels give on the CPU, and elsewhere FlexAttention or operators."""


def way(*has: str) -> Callable[[Ask], Ask]:
    """Register a function that makes offers as the next backend, under its own name."""

    def put(offer: Ask) -> Ask:
        WAYS[offer.__name__] = Way(frozenset(has), offer)
        return offer

    return put
