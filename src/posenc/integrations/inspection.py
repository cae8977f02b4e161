"""Explains in plain words how a Hugging Face config encodes positions, and what can go wrong."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import torch

from posenc.clock import Clock, Phases
from posenc.encodings.encoding import Encoding
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.config_class import untried
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.measuring import differences, measure
from posenc.integrations.huggingface.measuring.shrink import WINDOW
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.position_table import PositionTable, of
from posenc.integrations.programs import llama_cpp
from posenc.integrations.words import count, encoding_in_words, sentences
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    Frequencies,
    LengthScaling,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Scaling,
    YaRN,
    planned,
)
from posenc.scaling.wavelengths import turns


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    Args:
        answer: a summary in one sentence.
        facts: one sentence per fact.
        risks: what can go wrong, with reasons; may be empty.
        positions: the position settings read from the config.
        table: the effective position settings, which the facts describe.
    """

    answer: str
    facts: tuple[str, ...]
    risks: tuple[str, ...]
    positions: ModelPositions
    table: PositionTable

    def text(self) -> str:
        """Return the inspection as text for the terminal."""
        return "\n".join(
            [
                self.answer,
                *(f"  {fact}" for fact in self.facts),
                "Risks:",
                *(f"  - {risk}" for risk in self.risks or ["none found"]),
            ]
        )


def inspect(config: object, *, base: float | None = None, as_type: str | None = None) -> Inspection:
    """Read ``config`` strictly (see ``posenc.integrations.huggingface.read``), or a .gguf file, and explain it.

    Raises:
        UnknownName, InvalidArgument: the config has a misspelt key, lacks a value or contradicts itself, or
            ``base`` is passed but not needed.
    """
    file = llama_cpp.fields(Path(str(config))) if str(config).endswith(".gguf") else None
    if base is not None and (file or _reads(config, as_type)):
        raise InvalidArgument(f"base={base:g} is not needed, because the config can be read without it; omit base")
    positions = llama_cpp.positions_of(file) if file else read(config, base=base, as_type=as_type)
    used = replace(
        positions,
        recipes={name: recipe for name, recipe in positions.recipes.items() if name in positions.layer_types},
    )
    table, encodings = llama_cpp.read(file) if file else of(used), used.encodings(used.max_length)
    rotary = {} if used.layout else used.rotary_recipes  # a tower has no trained length
    risks = [
        *(f"assumed: {note}" for note in table.notes),
        *([] if file else filter(None, [untried()])),
        *(
            f"{name}: {risk}" if len(rotary) > 1 else risk
            for name, recipe in rotary.items()
            for risk in _rotary_risks(recipe, used, used.windows_of(name))
        ),
        *sorted(
            f"attention factor {count(stated)} is stated in the config, and programs that do not read it use their "
            f"default, usually {count(default)}; `posenc inspect PATH --for PROGRAM` shows what a program uses"
            for stated, default in {(a.attention_factor, a.own_attention_factor) for a in table.layers.values()}
            if default is not None
        ),
        *(
            f"an input longer than {count(limit)} tokens fails, because the position table has no more rows; split "
            f"longer documents into overlapping pieces of at most {count(limit)} tokens"
            for limit in sorted(
                {used.max_length}
                if FAMILIES[used.model_type].table_ends
                else {one.position_limit for one in encodings.values() if one.axes == 1}
            )
            if limit < Encoding.position_limit
        ),
        *used.known_issues,
    ]
    facts = [
        *sentences(table),
        *(
            [
                "These are the checkpoint's pairs; the GGUF file, whose rows are reordered, has interleaved pairs "
                "(2i, 2i+1)."
            ]
            if file and table.model_type in llama_cpp.SORTED.split()
            else []
        ),
        *(
            f"Some Llama models since 3.1 are released with factor {count(scaling.factor)} and inputs of up to "
            f"{count(used.max_length)} tokens."
            for scaling in {recipe.get("scaling") for recipe in rotary.values()}
            if _shipped(scaling, used)
        ),
    ]
    return Inspection(_answer(used, table), tuple(facts), tuple(risks), positions, table)


def measured(path: Path, *, base: float | None = None, as_type: str | None = None) -> tuple[str, bool]:
    """Build a small model with random weights from the config at ``path``, measure its positional encoding, and
    compare the result with the settings that ``read`` returns.

    Returns:
        The comparison in words, and whether the results differ.
    """
    measurement = measure(path)
    lines = [
        f"Measured in a small random model with the same channels per head, but windows of {WINDOW} tokens:",
        *(f"  {sentence}" for sentence in sentences(measurement.table())),
    ]
    try:
        off = differences(measurement, read(measurement.config, base=base, as_type=as_type))
    except InvalidArgument as error:
        return "\n".join([*lines, f"Not compared: {str(error).partition(';')[0]}."]), False
    lines += [f"Differs: {text}." for text in off] or [
        "posenc's reading of the config agrees."
        if measurement.layers or measurement.tables
        else "Not compared: no layer with attention was measured."
    ]
    return "\n".join(lines), bool(off)


def _reads(config: object, as_type: str | None) -> bool:
    """Return whether the config can be read without a base."""
    with suppress(InvalidArgument):
        return bool(read(config, as_type=as_type))
    return False


def _answer(positions: ModelPositions, table: PositionTable) -> str:
    if not positions.rotary_recipes:
        encodings = dict.fromkeys(
            "no layer has a positional encoding"
            if layer.encoding == "nope"
            else encoding_in_words(layer.encoding).removeprefix(f"{positions.model_type}: ")
            for layer in table.layers.values()
        )
        return f"{table.model_type}: {'; '.join(encodings)}."
    layers = Counter(
        f"base {count(recipe.get('base'))}, {describe(recipe.get('scaling'))}"
        for name, recipe in positions.rotary_recipes.items()
        for _ in range(positions.layer_types.count(name))
    )
    mixed = (
        ""
        if all(layer.frequencies for layer in table.layers.values())
        else " in some layers, no positional encoding in the others"
    )
    each = [f"{many} layer{'s' * (many != 1)} with {words}" for words, many in layers.items()]
    return f"{table.model_type}: RoPE{mixed}, {'; '.join(each if len(each) > 1 else layers)}."


def describe(scaling: Scaling | LengthScaling) -> str:
    """Describe a scaling in a few words."""
    factor = count(getattr(scaling, "factor", 1.0))
    names: dict[type, str] = {
        Default: "no scaling",
        Linear: f"every frequency divided by {factor} (position interpolation)",
        NTK: f"{'ABF' if getattr(scaling, 'form', None) == 'abf' else 'NTK'} scaling by {factor}",
        DynamicNTK: "dynamic NTK: the base grows with the length of the request",
        Llama3: f"Llama 3 scaling by {factor}",
        LongRoPE: f"LongRoPE: a factor per pair from one of two lists, up to {factor} times the length",
        Proportional: f"the fastest {getattr(scaling, 'fraction', 1):.0%} of pairs rotate, and the others do not",
        YaRN: f"YaRN scaling by {factor}{'' if getattr(scaling, 'truncate', True) else ', ramp ends not rounded'}",
    }
    return names.get(type(scaling), "a factor per pair")


def _shipped(scaling: object, positions: ModelPositions) -> bool:
    """Return whether this is Llama 3.1's or 3.2's scaling, whose factor × original length is not max_length."""
    return (
        isinstance(scaling, Llama3)
        and scaling.factor in (8, 32)
        and (positions.original_length, positions.max_length) == (8192, 131_072)
    )


def _rotary_risks(recipe: Recipe, positions: ModelPositions, windows: set[int | None]) -> Iterator[str]:
    scaling, rotary_dim, base = (recipe.get(name) for name in ("scaling", "rotary_dim", "base"))
    longest = positions.max_length  # layer types may have different original lengths
    length = getattr(scaling, "original_length", positions.original_length if positions.alike else longest)
    if (
        isinstance(scaling, Llama3 | LongRoPE | YaRN)
        and not math.isclose(scaling.factor * length, longest, rel_tol=0.01)
        and not _shipped(scaling, positions)  # in that case, the facts mention the factor
    ):
        yield (
            f"factor mismatch: factor {count(scaling.factor)} times trained length {count(length)} is "
            f"{count(scaling.factor * length)}, but the config allows {count(longest)}"
        )
    scaling = Default() if isinstance(scaling, Linear | Llama3 | NTK | YaRN) and scaling.factor == 1 else scaling
    if isinstance(scaling, Linear):
        yield (
            f"the config does not say whether {count(longest)} is the length before or after scaling by "
            f"{count(scaling.factor)}; both occur in released models"
        )
    if isinstance(scaling, YaRN):
        yield "YaRN also scales short inputs, which slightly reduces the model's quality on short texts"
        if scaling.beta_fast >= length / (2 * math.pi):
            yield (
                f"beta_fast={count(scaling.beta_fast)} exceeds the turns of every pair, so only pair 0 keeps its "
                "frequency"
            )
    if isinstance(scaling, DynamicNTK) or (isinstance(scaling, LengthScaling) and longest > length):
        yield "frequencies depend on the length of a request; cached keys become stale past the planned length"
    yield from length_in_doubt(positions)
    slow = rotary_dim // 2 - turns(Default().frequencies(rotary_dim, base), length)
    if (
        slow
        and scaling == Default()
        and not FAMILIES[positions.model_type].table_ends
        and any((window or positions.chunk or math.inf) > length for window in windows)
    ):
        yield (
            f"beyond {count(length)} tokens the {slow} slowest pairs reach angles never seen in training: "
            "expect the loss to rise there without scaling"
        )
    yield from _rounding(planned(scaling, longest).frequencies(rotary_dim, base), positions)


def length_in_doubt(positions: ModelPositions) -> list[str]:
    """Return the risk that Qwen3's original length is not the trained length, if it is the config's 40,960."""
    return [
        "trained length in doubt: Qwen3's model card says 32,768; the config's 40,960 is "
        "32,768 for the answer plus 8,192 for the prompt"
    ] * (positions.model_type.startswith("qwen3") and positions.original_length == positions.max_length == 40_960)


def _rounding(spectrum: Frequencies, positions: ModelPositions) -> Iterator[str]:
    """Yield the risks from rounding, with the errors at the end of the longest input."""
    last = positions.max_length - 1
    end = torch.arange(max(0, last - 1023), last + 1)  # at one position, cos and sin may hide the error of angles
    exact, float32 = (torch.stack(Clock(spectrum, phases)(end, torch.float64)) for phases in get_args(Phases))
    yield (
        f"float32 angles, with which such checkpoints are trained, change cos and sin by up to "
        f"{float((exact - float32).abs().max()):.2g} near position {count(last)}"
    )
    kind = positions.source.get("torch_dtype", positions.source.get("dtype"))
    if kind in ("float16", "bfloat16") and not FAMILIES[positions.model_type].table_ends:  # no frequency buffers
        frequencies = torch.tensor(spectrum.float32)
        error = float(
            (frequencies.to(getattr(torch, str(kind))).double() - frequencies.double()).abs().max() * last
        )
        yield (
            f"{kind} tables: casting the loaded model with .to({kind}) also rounds its frequency buffers; at "
            f"position {count(last)} angles are then off by up to {count(float(f'{error:.2g}'))} rad"
        )
