"""What every encoding refuses of its settings, and of what does not fit them."""

from collections.abc import Callable

import pytest
import torch

from posenc import (
    FIRE,
    ALiBi,
    CoPE,
    DeBERTa,
    Decomposed,
    FoPE,
    FoX,
    Inkling,
    Kerple,
    Layers,
    Learned,
    LearnedRotary,
    NoPE,
    PoPE,
    QueryScale,
    Rotary,
    Sandwich,
    Shaw,
    Sinusoidal,
    SSMax,
    TransformerXL,
    XPos,
    attention,
    encoding,
)
from posenc.errors import InvalidArgument, PosencError, PositionOutOfRange, UnknownName
from posenc.positions import arange, grid

THREE_HEADS = torch.zeros(1, 3, 2, 8)

NUMBERS: list[tuple[Callable[[], object], str]] = [
    (lambda: ALiBi(0), "heads=0 must be at least 1"),
    (lambda: ALiBi(8, max_exponent=0.0), r"max_exponent=0.0 must be between 0 and 100; the paper uses 8"),
    (lambda: CoPE(0, 2), "head_dim=0 must be at least 1"),
    (lambda: CoPE(8, 2, positions=1), "positions=1 must be at least 2"),
    (lambda: DeBERTa(8, 0), "heads=0 must be at least 1"),
    (lambda: DeBERTa(8, 2, buckets=7), "buckets=7 must be even and at least 4; DeBERTa-v3 has 256"),
    (lambda: DeBERTa(8, 2, max_distance=129), "max_distance=129 must be above 129"),
    (lambda: Decomposed(8, 2, size=(7,)), r"size=\(7,\) must be two whole numbers"),
    (lambda: Decomposed(0, 2), "head_dim=0 must be at least 1"),
    (lambda: Decomposed(8, 2, size=(3, 3)).resized(2, 2, 2), r"size=\(2, 2, 2\) must have 2 axes"),
    (lambda: FIRE(0), "heads=0 must be at least 1"),
    (lambda: FIRE(2, units=0), "units=0 must be at least 1"),
    (lambda: FIRE(2, nearest=0.0), "nearest=0.0 must be a finite number of positions above 0"),
    (
        lambda: FoPE(8, 10, pairing="half", kept=5),
        r"kept=5 frequencies must be between 1 and head_dim/2=4; 1 of these",
    ),
    (lambda: FoPE(8, 4, pairing="half"), "kept=0 frequencies must be between 1 and"),
    (lambda: FoPE(8, 64, pairing="half", spread="much"), "spread='much' must be a number"),
    (lambda: FoX(0, 4), "width=0 must be at least 1"),
    (
        lambda: FoX(6, 4).at(arange(3)).with_content(torch.randn(1, 3, 5)),
        r"x has shape \(1, 3, 5\); expected \(B, length, channels\), width=6",
    ),
    (lambda: Inkling(0, 2), "width=0 must be at least 1"),
    (lambda: Inkling(8, 2, extent=0), "extent=0 must be at least 1"),
    (lambda: Inkling(8, 2, log_floor=0), "log_floor=0 must be a position of at least 1, or None"),
    (lambda: Inkling(8, 2, clip=0.0), "clip=0.0 must be a length above 0, or None for no limit"),
    (lambda: Inkling(8, 2, log_amount=-1.0), "log_amount=-1.0 must be finite and not negative"),
    (lambda: Kerple(0), "heads=0 must be at least 1"),
    (lambda: Layers({"nope": NoPE()}, ()), "layer_types is empty; name the type of every layer"),
    (
        lambda: Layers({"fox": FoX(8, 2)}, ("fox",)),
        "layers=None; fox has parameters in every layer: pass the number",
    ),
    (lambda: Learned(0, 4), "num_positions=0 must be at least 1"),
    (lambda: encoding("learned", width=8), "Learned needs num_positions; add num_positions=…"),
    (
        lambda: LearnedRotary(8, pairing="half", rotary_dim=6, axes=2),
        r"rotary_dim=6 must be a multiple of 2·axes=4, at most head_dim=8",
    ),
    (lambda: LearnedRotary(8, pairing="half", axes=0), "axes=0 must be at least 1"),
    (
        lambda: LearnedRotary(8, pairing="half", groups=2).at(arange(2)).rotate(THREE_HEADS, THREE_HEADS),
        "there are 3 heads and groups=2; the heads of queries and of keys",
    ),
    (
        lambda: LearnedRotary(8, pairing="half", groups=2).at(arange(2)).slice_heads(0, 1),
        "heads=None with groups=2: to slice heads for a rank, pass heads= of the whole model",
    ),
    (lambda: PoPE(8, 2, rotary_dim=9), r"rotary_dim=9 must be between 1 and head_dim=8"),
    (
        lambda: PoPE(8, 2).at(arange(2)).rotate(THREE_HEADS, THREE_HEADS),
        r"q has 3 heads and the angles are for 2; .*slice_heads",
    ),
    (
        lambda: attention(THREE_HEADS, THREE_HEADS, THREE_HEADS, PoPE(8, 3).at(arange(2))),
        r"q has 8 channels per head, but this encoding's rotate\(\) adds 8",
    ),
    (lambda: QueryScale(floor=0), "floor=0 must be a whole number of positions, at least 1; Llama 4"),
    (lambda: QueryScale(amount=-0.1), r"amount=-0.1 must be finite and not negative; released models use 0.1"),
    (lambda: Sandwich(0), "heads=0 must be at least 1"),
    (lambda: Sandwich(2, channels=7), "channels=7 must be even and at least 2"),
    (lambda: Sandwich(2, first=2), "first=2 must be 1, as in the paper, or 0"),
    (lambda: Sandwich(2, base=1.0), "base=1.0 must be finite and above 1"),
    (lambda: Shaw(0, 2), "head_dim=0 must be at least 1"),
    (lambda: Shaw(8, 2, behind=-1), "behind=-1 and ahead=8 must not be negative, nor both 0"),
    (lambda: Shaw(8, 2, behind=0, ahead=0), "behind=0 and ahead=0 must not be negative"),
    (lambda: Sinusoidal(0), "width=0 must be at least 1"),
    (lambda: Sinusoidal(7, base=0.5), "base=0.5 must be finite and above 1"),
    (lambda: Sinusoidal(8, base=0.5), "base=0.5 must be finite and above 1"),
    (
        lambda: Sinusoidal(7, spacing="tensor2tensor"),
        "width=7 must be even with spacing='tensor2tensor'; use 8",
    ),
    (lambda: SSMax(4, length=1), "length=1 must be a whole number of positions, at least 2"),
    (lambda: SSMax(0), "heads=0 must be at least 1"),
    (lambda: TransformerXL(7, 2, 8), "width=7 must be even and at least 2"),
    (lambda: TransformerXL(8, 0, 8), "heads=0 must be at least 1"),
    (
        lambda: XPos(8, pairing="half", scale_base=8),
        "scale_base=8 must be a whole number of positions, at least 64; the paper",
    ),
    (lambda: XPos(8, pairing="half", gamma=0), "gamma=0 must be a number above 0; the paper uses"),
]

NAMES: list[tuple[Callable[[], object], str]] = [
    (lambda: Kerple(2, kernel="logs"), "logs"),
    (
        lambda: Layers({"rope": Rotary(8, pairing="half")}, ("rop",)),
        "unknown layer type 'rop'; did you mean 'rope'",
    ),
    (lambda: Learned(8, 4, past_end="clamped"), "unknown past_end 'clamped'; did you mean 'clamp'"),
    (lambda: PoPE(8, 2, start="one"), "unknown start 'one'"),
    (lambda: QueryScale(rule="llama5"), "unknown rule 'llama5'; did you mean 'llama4'"),
    (lambda: Sinusoidal(8, order="blocks"), "unknown order 'blocks'; did you mean 'block'"),
    (lambda: Sinusoidal(8, spacing="papers"), "unknown spacing 'papers'; did you mean 'paper'"),
    (lambda: TransformerXL(8, 2, 8, order="blocks"), "blocks"),
]

POSITIONS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: Decomposed(8, 2, size=(9, 3)).at(grid(2, 5)),
        r"q?_?positions\[1\] holds 4; the last position here is 2",
    ),
    (lambda: LearnedRotary(8, pairing="half").at(torch.tensor([-1])), "-1"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (act, error, message)
        for error, cases in ((InvalidArgument, NUMBERS), (UnknownName, NAMES), (PositionOutOfRange, POSITIONS))
        for act, message in cases
    ],
)
def test_bad_settings_are_refused(act: Callable[[], object], error: type[PosencError], message: str) -> None:
    with pytest.raises(error, match=message):
        act()
