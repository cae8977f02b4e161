"""The cases of the laws: all encodings of the catalogue, and all settings that change an encoding's formula."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import posenc
from posenc import (
    FIRE,
    T5,
    ALiBi,
    ChannelRotary,
    CoPE,
    DeBERTa,
    Decomposed,
    Encoding,
    FoPE,
    FoX,
    Inkling,
    Kerple,
    Layers,
    LayoutLM,
    Learned,
    LearnedGrid,
    LearnedRotary,
    NoPE,
    PoPE,
    QueryScale,
    Rotary,
    Sandwich,
    Shaw,
    Sinusoidal,
    SinusoidalGrid,
    SSMax,
    Stack,
    TransformerXL,
    Window,
    XPos,
)
from posenc.encodings.text import Recipe, parse
from posenc.laws.subject import ROWS, Subject
from posenc.scaling import NTK, Proportional, YaRN
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer
from support import reference


@dataclass(frozen=True)
class Case(Subject):
    """A subject of the laws, with a formula if the formula is known.

    Args:
        recipe: the recipe of the string from which the case was made; None without a string.
        other: a function that builds the encoding with a setting that must change the result; None without one.
        formula: the encoding in float64 from its paper; None if the encoding consists only of parameters.
    """

    recipe: Recipe | None = None
    other: Callable[[], Encoding] | None = None
    formula: reference.Reference | None = None

    def model(self, *, causal: bool = True) -> Transformer:
        """Build the workbench's transformer with this encoding, in float64."""
        config = Model(width=self.width, layers=2, heads=self.heads, kv_heads=self.kv_heads)
        return Transformer(config, self.build(), 17, causal=causal).initialise(0).double().requires_grad_(False)

    def __str__(self) -> str:
        return self.name


def by_name(name: str, width: int = 32) -> Callable[[], Encoding]:
    return lambda: posenc.encoding(name, width=width, heads=4, head_dim=width // 4, num_positions=ROWS)


OTHERS: dict[str, Callable[[], Encoding]] = {
    "sinusoidal": lambda: Sinusoidal(32, base=100.0),
    "learned": lambda: Learned(ROWS, 32, std=2.0),
    "rotary": lambda: Rotary(8, pairing="half", base=5e5),
    "alibi": lambda: ALiBi(4, max_exponent=4.0),
    "t5": lambda: T5(4, two_sided=True),
    "query-scale": lambda: QueryScale(floor=4),
    "channel-rotary": lambda: ChannelRotary(8, layout="gemma4-vision", base=1e4),
    "learned-grid": lambda: LearnedGrid(ROWS, 32, tables="sum", std=2.0),
    "sinusoidal-grid": lambda: SinusoidalGrid(32, base=100.0),
    "rotary-learned": lambda: LearnedRotary(8, pairing="half", base=100.0),
    "xpos": lambda: XPos(8, pairing="half", scale_base=64),
    "pope": lambda: PoPE(8, 4, base=100.0),
    "fope": lambda: FoPE(8, ROWS, pairing="half", base=100.0),
    "ssmax": lambda: SSMax(4, length=4),
    "kerple": lambda: Kerple(4, kernel="power"),
    "sandwich": lambda: Sandwich(4, first=0),
    "fire": lambda: FIRE(4, nearest=9.0),
    "shaw": lambda: Shaw(8, 4, behind=3),
    "inkling": lambda: Inkling(32, 4, extent=5),
    "transformer-xl": lambda: TransformerXL(32, 4, 8, base=100.0),
    "deberta": lambda: DeBERTa(8, 4, buckets=8, max_distance=16),
    "cope": lambda: CoPE(8, 4, positions=3),
    "window": lambda: Window(4, size=(70, 70)),
    "decomposed": lambda: Decomposed(8, 4, size=(70, 70)),
    "layoutlm": lambda: LayoutLM(4, buckets=(8, 8, 8), max_distance=(9, 9, 9)),
}
FORMULAS: dict[str, reference.Reference] = {
    "nope": reference.Reference(),
    "sinusoidal": reference.Sinusoids(32),
    "rotary": reference.Rotation(8, "half"),
    "alibi": reference.Slopes(reference.slopes(4)),
}
CATALOGUE = [
    Case(name, by_name(name), recipe=parse(name), other=OTHERS.get(name), formula=FORMULAS.get(name))
    for name in posenc.CATALOGUE
]

VARIANTS = [
    Case(
        "rotary-interleaved",
        lambda: Rotary(8, pairing="interleaved"),
        other=lambda: Rotary(8, pairing="interleaved", base=5e5),
        formula=reference.Rotation(8, "interleaved"),
    ),
    Case(
        "rotary-partial",
        lambda: Rotary(8, pairing="half", rotary_dim=4),
        other=lambda: Rotary(8, pairing="half", rotary_dim=2),
        formula=reference.Rotation(4, "half"),
    ),
    Case(
        "rotary-partial-interleaved",
        lambda: Rotary(8, pairing="interleaved", rotary_dim=6),
        other=lambda: Rotary(8, pairing="half", rotary_dim=6),
        formula=reference.Rotation(6, "interleaved"),
    ),
    Case(
        "rotary-float32-phases",
        lambda: Rotary(8, pairing="half", phases="float32"),
        other=lambda: Rotary(8, pairing="half", phases="float32", base=5e5),
    ),
    Case(
        "rotary-ntk",
        lambda: Rotary(8, pairing="half", scaling=NTK(4.0)),
        other=lambda: Rotary(8, pairing="half", scaling=NTK(8.0)),
        formula=reference.Rotation(8, "half", 1e4 * 4.0 ** (8 / 6)),
    ),
    Case(
        "rotary-yarn",
        lambda: Rotary(8, pairing="half", scaling=YaRN(4.0, 512, attention_factor=1.0)),
        other=lambda: Rotary(8, pairing="half", scaling=YaRN(8.0, 512, attention_factor=1.0)),
    ),
    Case(
        "rotary-proportional",
        lambda: Rotary(8, pairing="interleaved", scaling=Proportional(0.5)),
        other=lambda: Rotary(8, pairing="interleaved", scaling=Proportional(0.75)),
    ),
    Case(
        "sinusoidal-odd",
        lambda: Sinusoidal(15),
        other=lambda: Sinusoidal(15, scale=0.5),
        formula=reference.Sinusoids(15),
        width=15,
        heads=3,
        kv_heads=1,
        head_dim=5,
    ),
    Case(
        "sinusoidal-block",
        lambda: Sinusoidal(32, order="block"),
        other=lambda: Sinusoidal(32),
        formula=reference.Sinusoids(32, "block"),
    ),
    Case(
        "sinusoidal-tensor2tensor",
        lambda: Sinusoidal(32, order="block", spacing="tensor2tensor"),
        other=lambda: Sinusoidal(32, order="block"),
        formula=reference.Sinusoids(32, "block", "tensor2tensor"),
    ),
    Case(
        "learned-grid-resized",
        lambda: LearnedGrid(5, 32, columns=7, resize="timm").resized(ROWS, 40),
        other=lambda: LearnedGrid(5, 32, columns=7, resize="vit").resized(ROWS, 40),
    ),
    Case(
        "alibi-12",
        lambda: ALiBi(12),
        other=lambda: ALiBi(12, max_exponent=16.0),
        formula=reference.Slopes(reference.slopes(12)),
        width=48,
        heads=12,
        kv_heads=4,
        head_dim=4,
    ),
]

TEXTS = (
    "t5(two_sided=True, shared=False, buckets=8, max_distance=12)",
    "query-scale(floor=4)",
    "query-scale(floor=5, rule=ministral3)",
    "learned(past_end=clamp)",
    "query-scale(floor=5, rule=beam)",
    "query-scale(floor=5, rule=inkling)",
    "rotary(scaling=yarn(4, 512))",
    "kerple(kernel=power, shared=True)",
    "fire(nearest=20, units=5)",
    "inkling(extent=4, basis=2, log_floor=3, clip=0.5)",
    "stack(rotary, shaw(ahead=0, behind=6))",
    "stack(rotary, fox(bias=1))",
    "stack(sinusoidal, alibi, t5, query-scale(floor=3))",
    "alibi(slopes=(0.0625, 0.00390625, 0, 0))",
    "layers(rotary*3 + nope)",
    "rotary(axes=chunked(2, 1, 1))",
    "rotary-learned(axes=2, groups=2, base=10, pairing=interleaved, shared=False, signed=True)",
    "pope(rotary_dim=4, start=uniform)",
    "stack(pope, alibi)",
    "stack(xpos(pairing=interleaved), alibi)",
    "fope(groups=2, kept=3, pairing=interleaved, shared=False)",
    "rotary(axes=axial(2, 2), pairing=interleaved, signed=True)",
    "layers(rotary(axes=strided(2, 1, 1))*2 + alibi)",
    "channel-rotary(layout=hunyuan-vl, signed=True)",
    "self-extend(rotary, group=3, window=4)",
    "dca(rotary, chunk=6, local=2)",
    "rerope(rotary, window=4)",
    "stack(rerope(rotary(pairing=interleaved), window=4), query-scale(floor=4))",
    "layers(string(rotary(scaling=yarn(4, 512)), shift=6, window=2)*3 + nope)",
)
COMPOSED = [
    *(Case(text, Subject.of(text).make, layers=Subject.of(text).layers, recipe=parse(text)) for text in TEXTS),
    Case(
        "layers with a window",
        lambda: Layers(
            {"near": Rotary(8, pairing="half"), "far": Stack(NoPE(), FoX(32, 4)), "t5": T5(4)},
            ("near", "far", "t5"),
            layers=3,
            windows={"near": 5},
        ),
        layers=3,
    ),
]

CASES = CATALOGUE + VARIANTS + COMPOSED

BREADTH = {
    *("rotary-ntk", "rotary-yarn", "rotary-proportional", "sinusoidal-tensor2tensor", "learned-grid-resized"),
    *("rotary-partial-interleaved", "sinusoidal-block", "alibi-12", "layers(rotary*3 + nope)"),
    *(
        "query-scale(floor=4)",
        *(f"query-scale(floor=5, rule={rule})" for rule in ("beam", "ministral3", "inkling")),
    ),
    *("rotary(axes=axial(2, 2), pairing=interleaved, signed=True)", "stack(xpos(pairing=interleaved), alibi)"),
    *("rotary-float32-phases", "rotary(axes=chunked(2, 1, 1))", "sinusoidal-odd"),
    *("t5(two_sided=True, shared=False, buckets=8, max_distance=12)", "stack(rotary, shaw(ahead=0, behind=6))"),
    *(
        "kerple(kernel=power, shared=True)",
        "fire(nearest=20, units=5)",
        "inkling(extent=4, basis=2, log_floor=3, clip=0.5)",
    ),
    *("stack(pope, alibi)", "pope(rotary_dim=4, start=uniform)"),
    *(
        "fope(groups=2, kept=3, pairing=interleaved, shared=False)",
        "channel-rotary(layout=hunyuan-vl, signed=True)",
    ),
    *("rotary(scaling=yarn(4, 512))", "alibi(slopes=(0.0625, 0.00390625, 0, 0))"),
    *("learned(past_end=clamp)", "layers with a window", "rotary-partial", "rotary-interleaved"),
    *("stack(rotary, fox(bias=1))", "layers(rotary(axes=strided(2, 1, 1))*2 + alibi)"),
    *("dca(rotary, chunk=6, local=2)", "rerope(rotary, window=4)"),
    "stack(rerope(rotary(pairing=interleaved), window=4), query-scale(floor=4))",
    "layers(string(rotary(scaling=yarn(4, 512)), shift=6, window=2)*3 + nope)",
    "rotary-learned(axes=2, groups=2, base=10, pairing=interleaved, shared=False, signed=True)",
}
"""Further settings that resemble other cases; their laws run only in ``make slow``."""
TIERS = [pytest.param(case, marks=[pytest.mark.slow] if str(case) in BREADTH else []) for case in CASES]
"""All cases as parameters of a test for all encodings."""
