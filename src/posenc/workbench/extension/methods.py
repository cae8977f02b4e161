"""The methods that run a rotary model past its trained length, by name."""

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
    """A method for running a rotary model past its trained length.

    Args:
        name: the name on the command line.
        label: the label in figures and tables.
        scaling: the new scaling of the layers without sliding-window attention, or of all rotary layers if all use
            sliding windows. None removes the rotation from these layers (DroPE, arXiv 2512.12167), which
            requires a fine-tune.
        remap: the remapping of positions, as a string in which ``rotary`` stands for the model's encoding; empty
            for no remapping.
    """

    name: str
    label: str
    scaling: Scaling | LengthScaling | None
    remap: str = ""

    @property
    def values(self) -> str:
        """The remapping, or the scaling's values as JSON. Plans store this string and the method's name."""
        return self.remap or json.dumps(self.scaling and to_dict(self.scaling), sort_keys=True)

    def frequencies(self, length: int) -> str:
        """Return a string that is the same for all methods with the same frequencies at this length.

        For example, at a short length, dynamic NTK scaling has the frequencies of the unscaled model.
        """
        if self.scaling is None or self.remap:
            return self.values
        return json.dumps(to_dict(planned(self.scaling, length)), sort_keys=True)

    def positions(self, model: Any, length: int) -> Encoding:
        """Return a language model's encoding with this method applied, for a request of this length."""
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
"""The methods whose only setting is a factor, with their labels in figures and tables."""
REMAPPED = {
    "self-extend": "Self-Extend",
    "dca": "DCA",
    "rerope": "ReRoPE",
    "string": "STRING",
}
"""The methods that remap positions and keep frequencies. A comparison includes such a method only if the user
requests it by name."""
ALL = LABELS | REMAPPED | {"own": "the config's scaling", "drope": "DroPE"}
"""The names and labels of all methods."""
WITHOUT_FACTOR = ("none", "own", "drope", "dca", "rerope")
"""The methods that are the same for every length, and so take no factor."""
NAMES = tuple(name for name in LABELS if name not in ("ntk-fixed", "abf"))
"""The methods that are compared by default; ``own`` is added if the config has its own scaling."""


def methods(
    names: Collection[str] | None,
    own: Scaling | LengthScaling,
    original_length: int,
    factor: float,
    beta_fast: float = 32.0,
) -> tuple[Method, ...]:
    """Return the methods with these names. They extend the trained length by ``factor``, or by the factor in the
    name, as in ``yarn(4)``.

    ``own`` is the scaling in the model's config. YaRN keeps the frequencies of channel pairs that make more than
    ``beta_fast`` turns within the trained length. With the default of 32, no pair makes so many turns if the
    trained length is below 32·2π ≈ 201, because the fastest pair makes one turn in 2π positions. In this case,
    ``yarn`` still keeps the frequency of the fastest pair, because its ramp starts at this pair or later.
    ``yarn-paper``, whose ramp depends on the turns themselves, keeps none.
    """
    unchanged = "none" if own == Default() else "own"
    names = dict.fromkeys((*NAMES, unchanged)) if names is None else names
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"methods={','.join(names)!r} must name at least one method, without duplicates")

    def read(name: str) -> Method:
        base, stated, text = name.partition("(")
        one_of("method", base, ALL)
        number = re.fullmatch(r"(\d+(?:\.\d+)?)\)", text)
        if stated and (number is None or float(number[1]) < 1 or base in WITHOUT_FACTOR):
            raise InvalidArgument(
                f"method {name!r} must be a name with an optional factor of at least 1, such as yarn(4); "
                f"{', '.join(WITHOUT_FACTOR)} take no factor"
            )
        times = float(number[1]) if number else factor
        scaling = (
            method(base, times, original_length, beta_fast=beta_fast)
            if base in LABELS
            else {"own": own, "drope": None}.get(base, Default())
        )
        remap = remappings(original_length, math.ceil(times * original_length)).get(base, "")
        return Method(name, ALL[base] + (f" × {times:g}" if number else ""), scaling, remap)

    return tuple(map(read, names if unchanged in names else (unchanged, *names)))


def remappings(trained: int, length: int) -> dict[str, str]:
    """Return every remapping by name, as a string with its settings for a text of ``length`` tokens.

    The settings keep all distances in this text within the trained length. STRING can do this only for texts of up
    to 2 · ``trained`` − W tokens, where W is its window, because its shift is at most ``trained``. Longer texts
    get this largest shift too.

    The window is a quarter of the trained length for Self-Extend and half of it for ReRoPE. For DCA, ``chunk`` is
    five eighths and ``local`` is an eighth of the trained length, as its authors set them. STRING's window is 128,
    which its authors use, or an eighth of the trained length if that is smaller.
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
