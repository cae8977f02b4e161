"""Tiered scaling: the smallest of several factors that covers the request.

A static factor costs short texts, and most requests are short. Qwen's model cards advise to set YaRN's factor by
the length that is served; a proposal for vLLM, ``--request-static-yarn-factors 1 2 4``, chooses it by request.
"""

from dataclasses import dataclass

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.scaling.checks import check_factor, check_original_length, check_total_length
from posenc.scaling.default import Default
from posenc.scaling.linear import Linear
from posenc.scaling.llama3 import Llama3
from posenc.scaling.ntk import NTK
from posenc.scaling.scaling import LengthScaling, Scaling
from posenc.scaling.yarn import YaRN

TIERS = {"linear": Linear, "ntk": NTK, "yarn": YaRN, "llama3": Llama3}
"""The scalings that a factor and, but for the first two, the trained length are enough for."""


@dataclass(frozen=True)
class Tiered(LengthScaling):
    """One scaling with the smallest of ``factors`` by which the trained length covers the request.

    ``Tiered(YaRN, 32768).plan(50_000)`` is ``YaRN(2.0, 32768)``, and up to 32768 tokens ``Default()``.

    Args:
        method: ``YaRN``, ``Linear``, ``NTK`` or ``Llama3``, or its name: ``"yarn"``.
        original_length: L, the trained context in tokens.
        factors: ascending, each at least 1; 1 is no scaling.

    Cached keys are stale when a request outgrows the tier that it was planned for (``stale``): plan for prompt and
    answer together, or move the cache with ``posenc.rerotate``.
    """

    method: str | type[Scaling]
    original_length: int
    factors: tuple[float, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        names = {kind: name for name, kind in TIERS.items()}
        name = names.get(self.method, self.method) if isinstance(self.method, type) else self.method
        object.__setattr__(self, "method", one_of("method", name, TIERS))
        object.__setattr__(self, "factors", tuple(self.factors))
        check_original_length(self.original_length)
        for factor in self.factors:
            check_factor(factor, "factors")
        if not self.factors or sorted(set(self.factors)) != list(self.factors):
            raise InvalidArgument(f"factors={self.factors} must be ascending, one at least: (1, 2, 4)")

    def plan(self, total_length: int) -> Scaling:
        """The scaling at the smallest factor that covers ``total_length``."""
        check_total_length(total_length)
        factor = next((one for one in self.factors if one * self.original_length >= total_length), None)
        if factor is None:
            raise InvalidArgument(
                f"total_length={total_length} is more than {self.factors[-1]} × {self.original_length}; add a "
                "factor"
            )
        length = {} if self.method in ("linear", "ntk") else {"original_length": self.original_length}
        return Default() if factor == 1 else TIERS[str(self.method)](float(factor), **length)
