"""The ways to run a rotary model past its trained length, by name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling import Default, LengthScaling, Scaling, method, to_dict


@dataclass(frozen=True)
class Method:
    """One way.

    Args:
        name: as the command line has it.
        label: as figures and tables have it.
        scaling: what the layers that are stretched get; None drops the rotation (DroPE, arXiv 2512.12167), which
            only a fine-tune can make good.
    """

    name: str
    label: str
    scaling: Scaling | LengthScaling | None

    @property
    def values(self) -> str:
        """The scaling's values as JSON: what a job is known by, beside the method's name."""
        return json.dumps(None if self.scaling is None else to_dict(self.scaling), sort_keys=True)


LABELS = {
    "none": "no scaling",
    "linear": "linear (PI)",
    "ntk": "NTK",
    "ntk-fixed": "NTK (fixed form)",
    "dynamic": "dynamic NTK",
    "yarn": "YaRN",
    "yarn-paper": "YaRN (ramp by turns)",
    "llama3": "Llama 3",
}
"""The methods that a factor is enough for, as figures and tables have them."""
NAMES = tuple(name for name in LABELS if name != "ntk-fixed")
"""What is compared when nothing is chosen; ``own`` joins where the config has a scaling of its own."""


def methods(
    names: Sequence[str] | None,
    own: Scaling | LengthScaling,
    original_length: int,
    factor: float,
    beta_fast: float = 32.0,
) -> tuple[Method, ...]:
    """The methods of these names for ``factor`` times the trained length.

    ``own`` is the scaling that the model was configured with. ``beta_fast`` is YaRN's: where the trained length
    makes fewer than 32 turns of the fastest pair (201 positions), the default keeps no pair at all.
    """
    known = {
        name: Method(name, label, method(name, factor, original_length, beta_fast=beta_fast))
        for name, label in LABELS.items()
    }
    known["own"] = Method("own", "as configured", own)
    known["drope"] = Method("drope", "DroPE", None)
    if names is None:
        names = NAMES if own == Default() else (*NAMES, "own")
    for name in names:
        if name not in known:
            raise UnknownName("method", name, known)
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"methods={','.join(names)!r} must name at least one, and none twice")
    if "none" not in names:
        names = ("none", *names)
    return tuple(known[name] for name in names)
