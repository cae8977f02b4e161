"""The ways to run a rotary model past its trained length, by name."""

import itertools
import json
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from posenc.arguments import one_of
from posenc.encodings.encoding import Encoding
from posenc.errors import InvalidArgument
from posenc.remap import remapped
from posenc.scaling import Default, LengthScaling, Scaling, method, planned, to_dict


@dataclass(frozen=True)
class Method:
    """One way.

    Args:
        name: as the command line has it.
        label: as figures and tables have it.
        scaling: what the layers that are stretched get; None drops the rotation (DroPE, arXiv 2512.12167), which
            only a fine-tune can make good.
        remap: how their positions are remapped, as text, ``rotary`` for what they have; empty where they are not.
    """

    name: str
    label: str
    scaling: Scaling | LengthScaling | None
    remap: str = ""

    @property
    def values(self) -> str:
        """The scaling's values as JSON: what a job is known by, beside the method's name."""
        return self.remap or json.dumps(self.scaling and to_dict(self.scaling), sort_keys=True)

    def frequencies(self, length: int) -> str:
        """Equal for methods under which a text of this length is read alike, as under dynamic NTK a short one."""
        if self.scaling is None or self.remap:
            return self.values
        return json.dumps(to_dict(planned(self.scaling, length)), sort_keys=True)

    def positions(self, model: Any, length: int) -> Encoding:
        """A language model's positions under this method, for a request of a length."""
        encoding: Encoding = model.with_scaling(self.scaling, length)
        return remapped(encoding, self.remap) if self.remap else encoding


LABELS = {
    "none": "no scaling",
    "linear": "linear (PI)",
    "ntk": "NTK",
    "ntk-fixed": "NTK (fixed form)",
    "abf": "ABF (larger base)",
    "dynamic": "dynamic NTK",
    "yarn": "YaRN",
    "yarn-paper": "YaRN (ramp by turns)",
    "llama3": "Llama 3",
}
"""The methods that a factor is enough for, as figures and tables have them."""
REMAPPED = {
    "self-extend": "Self-Extend",
    "dca": "DCA",
    "rerope": "ReRoPE",
    "string": "STRING",
}
"""The methods that leave frequencies alone and remap positions; compared where they are named."""
ALL = LABELS | REMAPPED | {"own": "as configured", "drope": "DroPE"}
"""All that can be named."""
NAMES = tuple(name for name in LABELS if name not in ("ntk-fixed", "abf"))
"""What is compared when nothing is chosen; ``own`` joins where the config has a scaling of its own."""


def methods(
    names: Collection[str] | None,
    own: Scaling | LengthScaling,
    original_length: int,
    factor: float,
    beta_fast: float = 32.0,
) -> tuple[Method, ...]:
    """The methods of these names for ``factor`` times the trained length; ``yarn(2)`` has a factor of its own.

    ``own`` is the scaling that the model was configured with. ``beta_fast`` is YaRN's: where the trained length
    makes fewer than 32 turns of the fastest pair (201 positions), the default keeps no pair at all.
    """
    unchanged = "none" if own == Default() else "own"
    names = dict.fromkeys((*NAMES, unchanged)) if names is None else names
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"methods={','.join(names)!r} must name at least one, and none twice")

    def read(name: str) -> Method:
        base, stated, text = name.partition("(")
        one_of("method", base, ALL)
        number = re.fullmatch(r"(\d+(?:\.\d+)?)\)", text)
        if stated and (number is None or base in ("own", "drope")):
            raise InvalidArgument(f"method {name!r} must be a name, with a factor where it has one, as yarn(4)")
        times = float(number[1]) if number else factor
        if base in LABELS:
            scaling: Scaling | LengthScaling | None = method(base, times, original_length, beta_fast=beta_fast)
        else:
            scaling = {"own": own, "drope": None}.get(base, Default())
        remap = remappings(original_length, math.ceil(times * original_length)).get(base, "")
        return Method(name, ALL[base] + (f" × {times:g}" if number else ""), scaling, remap)

    return tuple(map(read, names if unchanged in names else (unchanged, *names)))


def remappings(trained: int, length: int) -> dict[str, str]:
    """Every remapping as text, with settings by which a text of ``length`` uses no distance beyond trained ones.
    STRING serves less than two trained lengths, and is set to what it serves where that is too little.

    Windows are a quarter or, where far keys stand close to them, half of the trained length; DCA's chunks as its
    authors have them, and STRING's window too.
    """
    quarter, half, few = max(1, trained // 4), max(1, trained // 2), max(1, trained // 8)
    group = next(g for g in itertools.count(1) if (trained - quarter + quarter // g) * g >= length)
    window = min(128, few)
    shift = min(trained, max(trained // 3, window, length - trained + window))
    return {
        "self-extend": f"self-extend(rotary, group={group}, window={quarter})",
        "dca": f"dca(rotary, chunk={5 * few}, local={few})",
        "rerope": f"rerope(rotary, window={half})",
        "string": f"string(rotary, shift={shift}, window={window})",
    }
