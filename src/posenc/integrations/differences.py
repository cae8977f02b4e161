"""The differences between two position tables, in words, and the effect of each difference on cos and scores.

    import json
    from pathlib import Path

    from posenc.integrations import huggingface, position_table
    from posenc.integrations.differences import differences
    from posenc.integrations.programs import vllm

    config = json.loads(Path("model/config.json").read_text())
    ours = position_table.of(huggingface.read(config))
    theirs = vllm.read(config, "0.33.0")
    for difference in differences(ours, theirs):
        print(difference)

If two programs run the same checkpoint with different frequencies, the score of a query and a key differs between
the programs. The difference is zero if query and key have the same position, and grows with the distance between
them, so short texts do not reveal it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch

from posenc.errors import InvalidArgument
from posenc.integrations.position_table import LayerTable, PositionTable
from posenc.integrations.words import PHRASES, TABLE, axes_in_words, within

BLOCK = 8192
"""The number of positions that are compared at a time."""
CLOSE = 2.0**-21
"""The relative tolerance for frequencies from a file or a program: eight times the rounding error of float32."""
TURNING: dict[str, tuple[str, ...]] = {
    "frequencies": ("frequencies",),
    "attention_factor": ("attention_factor",),
    "softmax_factor": ("softmax_factor",),
    "pairing": ("pairing",),
    "rotary_dim": ("rotary_dim", "frequencies", "axes"),
}
"""For each field that changes cos or scores, the fields that are replaced together to compute the errors that a
difference in this field causes.
"""


@dataclass(frozen=True)
class Error:
    """The difference between two tables in cos and in scores.

    Args:
        position: a position for ``cos``, and a distance between query and key for ``score``.
        cos: the largest error of cos over the channels of a head, including the attention factor.
        score: the difference in ``LayerTable.score``, in nats.
    """

    position: int
    cos: float
    score: float


@dataclass(frozen=True)
class Difference:
    """One difference between two tables.

    Args:
        what: the name of the field that differs, of ``LayerTable`` or ``PositionTable``.
        layer_type: the layer type; None for the whole model.
        ours, theirs: the two values.
        text: a sentence that describes the difference.
        errors: the errors of cos and scores that this difference alone causes at the requested positions; empty if
            it changes neither.
    """

    what: str
    layer_type: str | None
    ours: Any
    theirs: Any
    text: str
    errors: tuple[Error, ...] = ()

    def __str__(self) -> str:
        worst = max(self.errors, key=lambda error: (error.cos, error.score), default=Error(0, 0.0, 0.0))
        off = f"cos off by {worst.cos:.2g}" if worst.cos else f"a score off by {worst.score:.2g} nats"
        apart = f"; {off} at position {worst.position:,}" if worst.cos or worst.score else ""
        return f"{self.layer_type}: {self.text}{apart}" if self.layer_type else f"{self.text}{apart}"


def differences(
    ours: PositionTable,
    theirs: PositionTable,
    positions: Sequence[int] | None = None,
    names: tuple[str, str] = ("ours", "theirs"),
) -> list[Difference]:
    """Return all differences between two tables, first between their layers and then between whole models.

    Layers are compared by index, regardless of the names of their types. A window that is at least as wide as the
    longest input counts as no window. Frequencies differ if their relative difference exceeds eight times the
    rounding error of float32. If a scaling depends on the length of a request, the tables for short requests are
    also compared. If a difference is not in all layers of a type, the sentence says in how many.

    Args:
        positions: the positions at which errors are computed. The default is 0, L/2, L and 4·L, where L is the
            pretrained length of ``ours``, or its longest allowed input if the pretrained length is unknown.
        names: the names of ``ours`` and ``theirs`` in the sentences that describe differences.
    """
    length = ours.pretrained_length or ours.admitted_length
    at = (0, length // 2, length, 4 * length) if positions is None else tuple(positions)
    if any(p < 0 for p in at):
        raise InvalidArgument(f"positions={list(at)} must all be 0 or more; remove the negative positions")
    result: list[Difference] = []

    def add(what: str, layer_type: str | None, values: tuple[Any, Any], text: str, errors: Any = ()) -> None:
        sentence = (
            text.removesuffix(":")  # long lists of factors are abbreviated
            if _words(values[0]) == _words(values[1])
            else f"{text} {_words(values[0])} in {names[0]}, {_words(values[1])} in {names[1]}"
        )
        result.append(Difference(what, layer_type, *values, sentence, errors))

    pairs = list(zip(ours.layer_types, theirs.layer_types, strict=False))
    for (one, other), ((before, after), reached, requests) in product(
        dict.fromkeys(pairs), _requests(ours, theirs, at)
    ):
        first, second = before[one], after[other]
        layer_type = other if " in layer" in other else one
        named = [pair for pair in pairs if pair[" in layer" in other] == layer_type]
        for what in sorted(PHRASES, key=lambda name: name != "frequencies"):
            values = fields = (getattr(first, what), getattr(second, what))
            text = "" if _same(what, first, second) else PHRASES[what].differs
            if what == "frequencies" and (text := _frequencies(first, second, not any(requests))):
                values = _origin(first), _origin(second)
            if text and (what, layer_type, *values) not in [
                (d.what, d.layer_type, d.ours, d.theirs) for d in result
            ]:
                many = sum((getattr(before[a], what), getattr(after[b], what)) == fields for a, b in named)
                part = f"in {many} of {len(named)} layers, " * (many < len(named)) + requests[what == "frequencies"]
                add(what, layer_type, values, part + text, _errors(what, first, second, reached))
    for what, phrase in TABLE.items():
        values = (
            (len(ours.layer_types), len(theirs.layer_types))
            if what == "layer_types"
            else (getattr(ours, what), getattr(theirs, what))
        )
        if phrase.differs and values[0] != values[1] and None not in values:
            add(what, None, values, phrase.differs)
    return result


def _requests(
    ours: PositionTable, theirs: PositionTable, at: tuple[int, ...]
) -> list[tuple[list[dict[str, LayerTable]], tuple[int, ...], tuple[str, str]]]:
    """Return what to compare, first for the longest requests and then for shorter ones: the layers of both tables,
    the positions at which errors are computed, and the lengths of the requests in words: before a difference in
    other fields, and before one in frequencies. Both are empty if requests of all lengths are compared at once, and
    the first is empty for the longest requests, whose other fields usually apply to every request.
    """
    reach = min(ours.admitted_length, theirs.admitted_length)
    ends = sorted({reach, *(min(reach, table.short.admitted_length) for table in (ours, theirs) if table.short)})
    used = {
        (start, end): [t.short if t.short and end <= t.short.admitted_length else t for t in (ours, theirs)]
        for start, end in zip((0, *ends), ends, strict=False)
    }
    return [
        (
            [
                {
                    name: within(table.admitted_length if end == reach else end, layer)
                    for name, layer in table.layers.items()
                }
                for table in both
            ],
            at if both == [ours, theirs] else tuple(p for p in at if p < end),
            ("", f"in requests of more than {start:,} tokens, " * bool(start))
            if end == reach
            else (f"in requests of {f'{start + 1:,} to' if start else 'up to'} {end:,} tokens, ",) * 2,
        )
        for (start, end), both in reversed(used.items())
    ]


def parting(target: PositionTable, draft: PositionTable, above: float = 0.01) -> str:
    """Return a sentence that names the first position at which a draft model's cos differs from its target's, or
    says that no layers of the two have heads of equal size that rotate.

    Args:
        above: differences of cos count only if they exceed this number in some channel of a head.
    """
    pairs = [
        (layer, other)
        for name, layer in target.layers.items()
        for other in ([draft.layers[name]] if name in draft.layers else draft.layers.values())
        if _turn(layer, other)
    ]
    if not pairs:
        return "cos was not compared, because no layers of target and draft rotate heads of equal size"
    reach = min(target.admitted_length, draft.admitted_length)
    for at in torch.arange(reach).split(BLOCK):
        apart = [(one.cos(at) - other.cos(at)).abs().amax(1) > above for one, other in pairs if one != other]
        if apart and bool((anywhere := torch.stack(apart).any(0)).any()):
            return f"cos first differs by more than {above:g} at position {int(at[anywhere][0]):,}"
    if draft.admitted_length < target.admitted_length:
        return f"the draft model allows only {reach:,} tokens, but its target allows {target.admitted_length:,}"
    return f"cos differs by at most {above:g} up to position {reach - 1:,}"


def _same(what: str, first: LayerTable, second: LayerTable) -> bool:
    """Return whether a field has equal values in both layers, or values that cannot be compared, such as None."""
    values = (getattr(first, what), getattr(second, what))
    pairs = (len(first.frequencies), len(second.frequencies))
    incomparable = (
        (what in ("pairing", "head_dim", "query_dim") and None in values)
        or (what in ("pairing", "axes", "rotary_dim") and not all(pairs))
        or (what == "axes" and pairs[0] != pairs[1])
        or (
            what == "softmax_factor"
            and first.encoding != second.encoding
            and "nope" in (first.encoding, second.encoding)
        )
        or (what == "window_after" and None in (first.window, second.window))
    )
    if not incomparable and all(isinstance(value, float) for value in values):
        return math.isclose(*values, rel_tol=CLOSE)
    return incomparable or bool(values[0] == values[1])


def _frequencies(first: LayerTable, second: LayerTable, every: bool) -> str:
    """Return how many frequencies differ and by how much, in words, or an empty string if all are equal. If only
    one scaling is dynamic, return the length beyond which frequencies differ, unless ``every`` is false because
    requests of other lengths are compared separately.
    """
    if not first.frequencies or not second.frequencies:
        return ""
    if len(first.frequencies) != len(second.frequencies):
        return "" if _origin(first) == _origin(second) else "frequencies differ:"
    pairs = [sorted(pair) for pair in zip(first.frequencies, second.frequencies, strict=True)]
    off = [more / less if less else math.inf for less, more in pairs if not math.isclose(less, more, rel_tol=CLOSE)]
    scalings = {str(layer.scaling).partition(" for ")[0] for layer in (first, second)} - {"None"}
    dynamic = (
        re.findall(r"dynamic\(.*original_length=(\d+)", "\n".join(scalings)) if every and len(scalings) == 2 else []
    )
    largest = max((ratio for ratio in off if ratio < math.inf), default=0)
    by = f", by factors up to {largest:.{4 if largest > 1.001 else 8}g}" if largest else ""
    return (
        f"frequencies of {len(off)} of {len(pairs)} pairs differ{by}"
        + ", and some are 0 in one of the two" * (math.inf in off)
        + ":"
        if off
        else f"frequencies differ for inputs beyond {min(map(int, dynamic)):,} tokens:"
        if dynamic
        else ""
    )


def _origin(layer: LayerTable) -> str:
    if layer.scaling is None:
        return f"{layer.frequencies[0]:.4g} to {layer.frequencies[-1]:.4g} radians per position"
    return f"base {layer.base:.10g}, {layer.scaling}" if layer.base else f"{layer.scaling}"


def _turn(first: LayerTable, second: LayerTable) -> bool:
    """Return whether both layers rotate heads of the same size, so that their channels can be compared."""
    return bool(first.frequencies and second.frequencies) and first.head_dim == second.head_dim


def _errors(what: str, first: LayerTable, second: LayerTable, at: Sequence[int]) -> tuple[Error, ...]:
    """Return the errors that arise if only this field of the first layer is replaced by the second layer's."""
    if (
        what not in TURNING
        or not _turn(first, second)
        or (
            what == "frequencies"
            and (len(first.frequencies) != len(second.frequencies) or first.frequencies == second.frequencies)
        )
    ):
        return ()
    first = replace(first, pairing=first.pairing or second.pairing)  # if one pairing is unknown, use the other
    second = replace(first, **{name: getattr(second, name) or getattr(first, name) for name in TURNING[what]})
    positions = torch.tensor(at, dtype=torch.int64)
    apart = (first.cos(positions) - second.cos(positions)).abs().amax(1).tolist()
    return tuple(Error(p, off, abs(first.score(p) - second.score(p))) for p, off in zip(at, apart, strict=True))


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return axes_in_words(value)
    if isinstance(value, float):
        return f"{value:.7g}"
    text = "none" if value is None else f"{value:,}" if type(value) is int else str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"
