"""The ways to run a rotary model past its trained length, by name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from posenc.encodings import NoPE, Rotary
from posenc.encodings.encoding import Encoding
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.layers import RotaryLayer
from posenc.schedules import (
    NTK,
    Default,
    DynamicNTK,
    LengthSchedule,
    Linear,
    Llama3,
    Schedule,
    YaRN,
    to_dict,
)


@dataclass(frozen=True)
class Method:
    """One way.

    Args:
        name: as the command line has it.
        label: as figures and tables have it.
        schedule: what the scaled layers get; None drops the rotation (DroPE, arXiv 2512.12167), which only a
            fine-tune can make good.
    """

    name: str
    label: str
    schedule: Schedule | LengthSchedule | None

    @property
    def values(self) -> str:
        """The schedule's values as JSON: what a job is known by, beside the method's name."""
        return json.dumps(None if self.schedule is None else to_dict(self.schedule), sort_keys=True)

    def encoding(self, layer: RotaryLayer, total_length: int) -> Encoding:
        """The encoding of the scaled layers for a request of this length.

        Angles are float32, as transformers and the servers compute them: the numbers are those of the config.
        """
        if self.schedule is None:
            return NoPE()
        plan = self.schedule.plan(total_length) if isinstance(self.schedule, LengthSchedule) else self.schedule
        return Rotary(
            layer.head_dim,
            pairing=layer.pairing,
            base=layer.base,
            rotary_dim=layer.rotary_dim,
            schedule=plan,
            phases="float32",
        )


NAMES = ("none", "linear", "ntk", "dynamic", "yarn", "yarn-paper", "llama3")
"""What is compared when nothing is chosen; ``own`` joins where the config has a schedule of its own."""


def methods(
    names: Sequence[str] | None, layer: RotaryLayer, original_length: int, factor: float, beta_fast: float = 32.0
) -> tuple[Method, ...]:
    """The methods of these names for ``factor`` times the trained length.

    Dynamic NTK gets the same factor, as Hugging Face's documentation has it; at the full length it then scales
    more than NTK does. ``beta_fast`` is YaRN's: where the trained length makes fewer than 32 turns of the
    fastest pair (201 positions), the default keeps no pair at all.
    """
    known: dict[str, Method] = {
        "none": Method("none", "no scaling", Default()),
        "linear": Method("linear", "linear (PI)", Linear(factor)),
        "ntk": Method("ntk", "NTK", NTK(factor)),
        "ntk-fixed": Method("ntk-fixed", "NTK (fixed form)", NTK(factor, form="fixed")),
        "dynamic": Method("dynamic", "dynamic NTK", DynamicNTK(factor, original_length)),
        "yarn": Method("yarn", "YaRN", YaRN(factor, original_length, beta_fast)),
        "yarn-paper": Method(
            "yarn-paper", "YaRN (ramp by turns)", YaRN(factor, original_length, beta_fast, ramp="rotations")
        ),
        "llama3": Method("llama3", "Llama 3", Llama3(factor, original_length)),
        "own": Method("own", "as configured", layer.schedule),
        "drope": Method("drope", "DroPE", None),
    }
    if names is None:
        names = NAMES if layer.schedule == Default() else (*NAMES, "own")
    for name in names:
        if name not in known:
            raise UnknownName("method", name, known)
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"methods={','.join(names)!r} must name at least one, and none twice")
    if "none" not in names:
        names = ("none", *names)
    return tuple(known[name] for name in names)
