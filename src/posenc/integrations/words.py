"""The phrases with which ``posenc inspect``, ``posenc diff`` and the pages of ``posenc lab`` describe the fields of
position tables.

``PHRASES`` has a phrase for every field of ``LayerTable``, and ``TABLE`` has a phrase for every field of
``PositionTable``. Tests fail if a field has no phrase.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.encoding import Encoding
from posenc.encodings.text import parse
from posenc.integrations.position_table import LayerTable, PositionTable


@dataclass(frozen=True)
class Phrase:
    """The phrases for a field of a position table.

    Args:
        inspect: a function that returns the field's text in ``inspect``; its arguments are (layer, table) for a
            field of ``LayerTable`` and (table) for a field of ``PositionTable``. Text that starts with a capital
            letter is a separate sentence; other text is appended to the line of its layer type. The text is empty
            if the phrase of another field covers the field.
        differs: the words before the two values in ``diff``; empty if ``diff`` does not compare the field.
    """

    inspect: Callable[..., str] = lambda *tables: ""
    differs: str = ""


def sentences(table: PositionTable) -> list[str]:
    """Describe a table: a line per layer type, then lengths, then the frequencies and factors of every type."""
    phrases = {
        name: [phrase.inspect(layer, table) for field, phrase in PHRASES.items() if getattr(layer, field)]
        for name, layer in ((name, within(table.admitted_length, layer)) for name, layer in table.layers.items())
    }
    several = len({_type(name) for name, layer in table.layers.items() if layer.frequencies}) > 1
    facts = [
        f"{_type(name)}: {text}" if several else text
        for name, words in phrases.items()
        for text in words
        if text[:1].isupper()
    ]
    lines = Counter(
        (_type(name), "".join(text for text in phrases[name] if not text[:1].isupper()))
        for name in table.layer_types
    )
    return [
        *(f"{_label(name, many)}{words}." for (name, words), many in lines.items()),
        *filter(None, (phrase.inspect(table) for phrase in TABLE.values())),
        *dict.fromkeys(facts),
    ]


def count(value: float) -> str:
    """Return a number as text, with commas between thousands and without trailing zeros."""
    return f"{value:,.0f}" if float(value).is_integer() or value >= 1000 else f"{value:.4g}"


def longest(layer: LayerTable) -> float:
    """Return the wavelength of the slowest pair that rotates, in positions."""
    return 2 * math.pi / min(filter(None, layer.frequencies))


@lru_cache(maxsize=64)
def encoding_in_words(text: str) -> str:
    """Describe the encoding that a string such as ``alibi(heads=8)`` names. If the encoding's class does not
    override ``describe``, the description lists the settings. A string that does not name an encoding is returned
    unchanged.
    """
    if " " in text.partition("(")[0]:
        return text
    encoding = build(parse(text), ModelShape())
    if type(encoding).describe is not Encoding.describe:
        return encoding.describe()
    settings = {
        name: f"{value:g}" if isinstance(value, float) else "" if value is True else str(value)
        for name, value in encoding.settings.items()
        if name != "std" and value not in (None, False)
    }
    words = [
        f"{value} {name}" if name in ("heads", "buckets") else f"{name} {value}".strip()
        for name, value in settings.items()
    ]
    return f"{encoding.name}: {', '.join(words).replace('_', ' ')}"


def axes_in_words(axes: tuple[int, ...], *, ordered: bool = False) -> str:
    """Describe how many pairs use each position axis, and whether the pairs of an axis are chunked or interleaved.
    The order of chunked axes is stated if it is not 0, 1 … or if ``ordered`` is true.
    """
    runs = [(axis, len(list(pairs))) for axis, pairs in groupby(axes)]
    count = len(set(axes))
    if len(runs) > count:
        sizes = ", ".join(str(axes.count(axis)) for axis in range(count))
        return f"{count} axes, in interleaved sections of {sizes}: {', '.join(map(str, axes[:6]))} …"
    order, sections = (", ".join(map(str, numbers)) for numbers in zip(*runs, strict=True))
    by = f", of axes ({order})" if ordered or order != ", ".join(map(str, range(count))) else ""
    one = f"only axis {order}" if by else "one axis"
    return one if count == 1 else f"{count} axes, in chunked sections of {sections}{by}"


def layers_in_words(numbers: Sequence[int], most: int = sys.maxsize) -> str:
    """Return increasing layer numbers in words, such as ``layers 0 to 2, 4``. Of more than ``most`` ranges, the
    first ones and the last one are named: ``layers 0, 2, 4 … 34``.
    """
    runs = [[*run] for _, run in groupby(numbers, key=lambda number: number - numbers.index(number))]
    ranges = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    named = ", ".join(ranges) if len(ranges) <= most else f"{', '.join(ranges[: most - 1])} … {ranges[-1]}"
    return f"layer{'s' * (len(numbers) > 1)} {named}"


def within(length: int, layer: LayerTable) -> LayerTable:
    """Return the layer, without its window if the window is as wide as the longest input. A length of 0 means
    unknown."""
    return replace(layer, window=None) if layer.window and 0 < length <= layer.window else layer


def has_windows(table: PositionTable) -> bool:
    """Return whether a layer has a window smaller than the longest input."""
    return any(within(table.admitted_length, layer).window for layer in table.layers.values())


def _type(name: str) -> str:
    """Return the layer type with which a name from ``types_by_window`` begins."""
    return name.partition(" within ")[0]


def _label(name: str, many: int) -> str:
    if name.startswith(("layer ", "layers ")):  # a measured model names layers by their numbers
        return name.capitalize()
    of = "" if _type(name) in ("all", "rotary", "nope") else f" of {_type(name)}"
    return f"{many} layer{'s' * (many != 1)}{of}"


def _encoding(layer: LayerTable, table: PositionTable) -> str:
    if layer.encoding == "nope":
        return " without positional encoding"
    return f" with {'RoPE' if layer.encoding == 'rotary' else encoding_in_words(layer.encoding)}"


def _rotated(layer: LayerTable, table: PositionTable) -> str:
    """Return which channels of a head rotate: all, the first, the last, or those with a nonzero frequency."""
    rotated, channels = 2 * sum(map(bool, layer.frequencies)), layer.query_dim or layer.head_dim
    first = f"{'the first ' * (rotated == layer.rotary_dim)}{rotated} of" if rotated != layer.head_dim else ""
    last = f"the last {layer.head_dim} of" if layer.query_dim else "" if first else "all"
    return f": {' '.join(filter(None, (first, last)))} {channels} channels of a head rotate"


def _pairing(layer: LayerTable, table: PositionTable) -> str:
    pairs, still = len(layer.frequencies), layer.frequencies.count(0.0)
    slow = (
        f"do{'es' * (still == 1)} not"
        if layer.scaling
        else f"rotate{'s' * (still == 1)} too slowly to be measured, or not at all"
    )
    of = "interleaved pairs (2i, 2i+1)" if layer.pairing == "interleaved" else f"half pairs (i, i+{pairs})"
    return f", in {of}" + (f", of which {pairs - still} rotate and {still} {slow}" if still else "")


def _window(layer: LayerTable, table: PositionTable) -> str:
    before = count((layer.window or 1) - 1)
    visible = (
        f"itself, the {before} before it and the {count(layer.window_after)} after it"
        if layer.window_after
        else "only itself"
        if layer.window == 1
        else f"itself and the {before} before it"
    )
    return f"; a token sees {visible}"


def _wavelengths(layer: LayerTable, table: PositionTable) -> str:
    ends = f"{count(2 * math.pi / max(layer.frequencies))} to {count(longest(layer))} positions"
    full = sum(theta * (table.pretrained_length or 0) >= 2 * math.pi for theta in layer.unscaled)
    plainly = "" if layer.unscaled == layer.frequencies else "unscaled, "
    turns = f"; {plainly}{full} of {len(layer.unscaled)} pairs complete a turn within the trained length"
    return f"Wavelengths run from {ends}{turns if table.pretrained_length and not table.layout else ''}."


def _scaling(layer: LayerTable, table: PositionTable) -> str:
    """Return a sentence that names the scaling and counts the pairs that are sped up, those that keep their
    frequency, those whose frequency is divided by the largest factor, those in between, and those that do not
    rotate.
    """
    slowed = [
        plain / theta if theta else math.inf for plain, theta in zip(layer.unscaled, layer.frequencies, strict=True)
    ]
    most = max(filter(math.isfinite, slowed))
    fates = Counter(
        "not rotated"
        if times == math.inf
        else "sped up"
        if times < 1 - 1e-9
        else "unchanged"
        if times < 1 + 1e-9
        else f"slowed {most:.4g} times"
        if times > most * (1 - 1e-9)
        else "in between"
        for times in slowed
    )
    shares = ", ".join(f"{many} {fate}" for fate, many in fates.items())
    return "" if layer.scaling == "default()" else f"Scaling {layer.scaling}: of the pairs, {shares}."


def _attention_factor(layer: LayerTable, table: PositionTable) -> str:
    a, unstated = layer.attention_factor, layer.own_attention_factor
    stated = "" if unstated is None else f" is set explicitly; the scaling's default is {unstated:.3g}"
    effect = (
        f": scores are multiplied by {a * a:.4g}, which {'sharp' if a > 1 else 'flatt'}ens attention"
        if layer.rotary_dim == (layer.query_dim or layer.head_dim)
        else f": the rotated channels' part of scores is multiplied by {a * a:.4g}"
    )
    return "" if a == 1 and unstated is None else f"Attention factor {a:.4g}{stated}{effect if a != 1 else ''}."


def _softmax_factor(layer: LayerTable, table: PositionTable) -> str:
    factor, channels = layer.softmax_factor, layer.query_dim or layer.head_dim
    scale = f", which makes it {factor / math.sqrt(channels):.4g}" if channels else ""
    origin = f" ({layer.softmax_origin})" if layer.softmax_origin else ""
    return (
        f"The softmax scale 1/√{channels or 'D'} is multiplied by {factor:.4g}{scale}{origin}."
        if factor != 1
        else ""
    )


PHRASES: Mapping[str, Phrase] = {
    "encoding": Phrase(_encoding, "the encoding is"),
    "rotary_dim": Phrase(_rotated, "channels that rotate:"),
    "head_dim": Phrase(differs="channels of a head:"),
    "query_dim": Phrase(differs="channels of a head, including those that never rotate:"),
    "pairing": Phrase(_pairing, "pairs are"),
    "base": Phrase(lambda layer, table: f", base {count(layer.base)}"),
    "axes": Phrase(
        lambda layer, table: f"; pairs use {axes_in_words(layer.axes)}" if any(layer.axes) else "",
        "pairs use",
    ),
    "backwards": Phrase(lambda layer, table: "; pairs rotate backwards, by −p·θ", "pairs rotate backwards:"),
    "signed": Phrase(lambda layer, table: "; positions may be negative", "positions may be negative:"),
    "window": Phrase(_window, "the window, including the token itself, is"),
    "window_after": Phrase(differs="the window after the token is"),
    "chunk": Phrase(
        lambda layer, table: f"; a token sees only its chunk of {count(layer.chunk)} tokens", "tokens per chunk:"
    ),
    "query_scale": Phrase(
        lambda layer, table: f"; queries are scaled by {encoding_in_words(layer.query_scale).rpartition(': ')[2]}",
        "the query scale is",
    ),
    "softcap": Phrase(
        lambda layer, table: f"; scores are capped at ±{count(layer.softcap)} by tanh",
        "scores are capped by tanh at",
    ),
    "sinks": Phrase(lambda layer, table: "; every head has a sink in its softmax", "sinks in the softmax:"),
    "added_table": Phrase(
        lambda layer, table: f"; in addition, {encoding_in_words(layer.added_table)}", "the added table is"
    ),
    "frequencies": Phrase(_wavelengths, "frequencies"),
    "float32": Phrase(),
    "unscaled": Phrase(),
    "scaling": Phrase(_scaling),
    "attention_factor": Phrase(_attention_factor, "cos and sin are multiplied by"),
    "own_attention_factor": Phrase(),
    "softmax_factor": Phrase(_softmax_factor, "1/√D is multiplied by"),
    "softmax_origin": Phrase(),
}
"""The phrase of every field of ``LayerTable``, in the order in which ``inspect`` prints the fields."""


def _lengths(table: PositionTable) -> str:
    trained, tuned, longest = table.pretrained_length, table.tuned_length, table.admitted_length
    sentence = f"Trained length {count(trained)}" if trained else "Trained length not stated"
    sentence += "" if tuned in (trained, longest) else f", tuned for {count(tuned)}"
    unstated = "also the longest input, as the config gives no other length"
    sentence += f", {unstated if trained == longest else f'inputs of up to {count(longest)} allowed'}."
    return f"Patches use the positions of layout {table.layout}." if table.layout else sentence if longest else ""


TABLE: Mapping[str, Phrase] = {
    "model_type": Phrase(),
    "layers": Phrase(),
    "layer_types": Phrase(differs="layers:"),
    "pretrained_length": Phrase(_lengths, "the pretrained length is"),
    "tuned_length": Phrase(differs="the tuned length is"),
    "admitted_length": Phrase(differs="the longest allowed input is"),
    "encoder_length": Phrase(differs="positions of the encoder:"),
    "layout": Phrase(differs="the layout of the patches is"),
    "program": Phrase(lambda table: f"Computed by {table.program}." if table.program else ""),
    "notes": Phrase(),
    "not_asked": Phrase(lambda table: f"Not asked: {table.not_asked}." if table.not_asked else ""),
    "short": Phrase(),
}
"""The phrase of every field of ``PositionTable``. ``inspect`` prints the model type first, and notes as risks."""
