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
    """A method that runs a rotary model past its trained length.

    Args:
        name: the name on the command line.
        label: the label in figures and tables.
        scaling: the new scaling of the layers that are stretched; None drops the rotation (DroPE, arXiv
            2512.12167), which needs a fine-tune.
        remap: how positions are remapped, as a text in which ``rotary`` is the model's encoding; empty for no
            remapping.
    """

    name: str
    label: str
    scaling: Scaling | LengthScaling | None
    remap: str = ""

    @property
    def values(self) -> str:
        """The scaling's values as JSON. With the method's name, they identify a job."""
        return self.remap or json.dumps(self.scaling and to_dict(self.scaling), sort_keys=True)

    def frequencies(self, length: int) -> str:
        """A key that is equal for methods with the same frequencies at this length, such as dynamic NTK and no
        scaling on a short text."""
        if self.scaling is None or self.remap:
            return self.values
        return json.dumps(to_dict(planned(self.scaling, length)), sort_keys=True)

    def positions(self, model: Any, length: int) -> Encoding:
        """The positions of a language model under this method, for a request of this length."""
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
"""The methods that need only a factor, with their labels in figures and tables."""
REMAPPED = {
    "self-extend": "Self-Extend",
    "dca": "DCA",
    "rerope": "ReRoPE",
    "string": "STRING",
}
"""The methods that keep frequencies and remap positions. They are compared only if named."""
ALL = LABELS | REMAPPED | {"own": "as configured", "drope": "DroPE"}
"""The names and labels of all methods."""
NAMES = tuple(name for name in LABELS if name not in ("ntk-fixed", "abf"))
"""The methods that are compared by default; ``own`` is added if the config has its own scaling."""


def methods(
    names: Collection[str] | None,
    own: Scaling | LengthScaling,
    original_length: int,
    factor: float,
    beta_fast: float = 32.0,
) -> tuple[Method, ...]:
    """The methods with these names for ``factor`` times the trained length; ``yarn(2)`` has its own factor.

    ``own`` is the scaling in the model's config. ``beta_fast`` is for YaRN. If the fastest pair makes fewer than 32
    turns within the trained length (which takes 201 positions), the default keeps no pair.
    """
    unchanged = "none" if own == Default() else "own"
    names = dict.fromkeys((*NAMES, unchanged)) if names is None else names
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"methods={','.join(names)!r} must name at least one method, without duplicates")

    def read(name: str) -> Method:
        base, stated, text = name.partition("(")
        one_of("method", base, ALL)
        number = re.fullmatch(r"(\d+(?:\.\d+)?)\)", text)
        if stated and (number is None or base in ("own", "drope")):
            raise InvalidArgument(f"method {name!r} must be a name with an optional factor, such as yarn(4)")
        times = float(number[1]) if number else factor
        if base in LABELS:
            scaling: Scaling | LengthScaling | None = method(base, times, original_length, beta_fast=beta_fast)
        else:
            scaling = {"own": own, "drope": None}.get(base, Default())
        remap = remappings(original_length, math.ceil(times * original_length)).get(base, "")
        return Method(name, ALL[base] + (f" × {times:g}" if number else ""), scaling, remap)

    return tuple(map(read, names if unchanged in names else (unchanged, *names)))


def remappings(trained: int, length: int) -> dict[str, str]:
    """Every remapping as text, with settings under which a text of ``length`` uses only trained distances. STRING
    works below two trained lengths; for longer texts it is set to its limit.

    Windows are a quarter of the trained length, or half if far keys are remapped close to them. DCA's chunks and
    STRING's window are those of their authors.
    """
    quarter, half, few = max(1, trained // 4), max(1, trained // 2), max(1, trained // 8)
    fewest = max(1, (length - quarter) // max(1, trained - quarter))  # a smaller group cannot reach the length
    group = next(g for g in itertools.count(fewest) if (trained - quarter + quarter // g) * g >= length)
    window = min(128, few)
    shift = min(trained, max(trained // 3, window, length - trained + window))
    return {
        "self-extend": f"self-extend(rotary, group={group}, window={quarter})",
        "dca": f"dca(rotary, chunk={5 * few}, local={few})",
        "rerope": f"rerope(rotary, window={half})",
        "string": f"string(rotary, shift={shift}, window={window})",
    }
