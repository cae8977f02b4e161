"""What every encoding refuses of its settings, of what does not fit them, and of positions."""

import math
import re
from collections.abc import Callable
from functools import partial

import pytest
import torch

from posenc import (
    FIRE,
    T5,
    ALiBi,
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
    attention,
    encoding,
    rerotate,
)
from posenc.clock import Clock
from posenc.encodings.axes import AxisMap, alternating, axial, chunked, dealt, first_last, strided
from posenc.encodings.resize import Resize, gathered
from posenc.errors import InvalidArgument, PosencError, PositionOutOfRange, UnknownName
from posenc.layouts import from_bthd
from posenc.positions import arange, from_cu_seqlens, grid, packed, sharded
from posenc.scaling import NTK, Default, DynamicNTK, Frequencies, PerPair

THREE_HEADS = torch.zeros(1, 3, 2, 8)
HEADS, ROPE = torch.zeros(2, 4, 3, 8), Rotary(8, pairing="half")
CHUNKED = Rotary(8, pairing="half", axes=chunked(2, 1, 1))
LAYERED = Layers({"rope": ROPE, "nope": NoPE()}, ("rope", "nope"))
XPOS, LAST = XPos(16, pairing="half"), 26_156
"""⌊64·512/ln(1.4/0.4)⌋ is the last position of xPos."""
PAST = f"contains {LAST + 1}; the last position of this encoding is {LAST}"

ADDED = "cannot be moved: positions were added to the token embeddings"
IMMOVABLE: list[tuple[Encoding, Encoding, str]] = [
    *(
        (*pair, f"of {encoding.name} {reason}")
        for encoding, reason in (
            (Sinusoidal(16), ADDED),
            (Learned(64, 16), ADDED),
            (FoPE(16, 64, pairing="half"), "cannot be moved: its mixtures of cosines and sines are not"),
            (
                Layers({"rope": Rotary(16, pairing="half")}, ("rope",)),
                r"cannot be moved: every layer has its own encoding; move the keys of layer i with encoding",
            ),
            (Stack(Sinusoidal(16), ALiBi(3)), "cannot be moved: sinusoidal: positions were"),
        )
        for pair in ((encoding, NoPE()), (NoPE(), encoding))
    ),
    (
        ROPE,
        Rotary(8, pairing="interleaved"),
        "from_ has pairing='half' and to has pairing='interleaved'; both encodings must have the same",
    ),
    (Stack(ROPE, ALiBi(2)), Rotary(8, pairing="interleaved"), "both encodings must have the same"),
    (Stack(ROPE, ALiBi(2)), Stack(Rotary(8, pairing="interleaved"), ALiBi(2)), "both encodings must have the same"),
    (Stack(LearnedRotary(8, pairing="half", rotary_dim=4)), ROPE, "both encodings must have the same"),
]
"""Encodings between which cached keys cannot be moved."""

NUMBERS: list[tuple[Callable[[], object], str]] = [
    (lambda: ALiBi(0), "heads=0 must be at least 1"),
    (lambda: ALiBi(8, max_exponent=0.0), r"max_exponent=0.0 must be between 0 and 100; use 8, as in the paper"),
    (lambda: CoPE(0, 2), "head_dim=0 must be at least 1"),
    (lambda: CoPE(8, 2, positions=1), "positions=1 must be at least 2"),
    (lambda: DeBERTa(8, 0), "heads=0 must be at least 1"),
    (lambda: DeBERTa(8, 2, buckets=7), "buckets=7 must be even and at least 4; DeBERTa-v3 has 256"),
    (lambda: DeBERTa(8, 2, max_distance=129), "max_distance=129 must be above 129"),
    (lambda: Decomposed(8, 2, size=(7,)), r"size=\(7,\) must be two or more whole numbers"),
    (lambda: Decomposed(0, 2), "head_dim=0 must be at least 1"),
    (lambda: Decomposed(8, 2, size=(3, 3)).resized(2, 2, 2), r"size=\(2, 2, 2\) must have 2 numbers"),
    (lambda: FIRE(0), "heads=0 must be at least 1"),
    (lambda: FIRE(2, units=0), "units=0 must be at least 1"),
    (lambda: FIRE(2, nearest=0.0), "nearest=0.0 must be a finite number above 0; 512 is usual"),
    (
        lambda: FoPE(8, 10, pairing="half", kept=5),
        r"kept=5 must be between 1 and head_dim/2=4; 1 of the frequencies",
    ),
    (lambda: FoPE(8, 4, pairing="half"), "kept=0 must be between 1 and"),
    (lambda: FoPE(8, 64, pairing="half", spread="much"), "spread='much' must be a number"),
    (lambda: FoX(0, 4), "width=0 must be at least 1"),
    (
        lambda: FoX(6, 4).at(arange(3)).with_content(torch.randn(1, 3, 5)),
        r"x has shape \(1, 3, 5\); expected \(B, length, width=6\)",
    ),
    (lambda: FoX(6, 4, bias=float("nan")), "bias=nan must be a finite number; 5.0 is usual"),
    *(
        (
            lambda state=state: FoX(6, 4).at(arange(3)).with_content(torch.randn(1, 3, 6), state),
            r"state is .*; expected \(1, 4\) and the number of cached keys; pass the state that with_content",
        )
        for state in ("x", torch.zeros(1, 3, 2), torch.zeros(2, 4, 2))
    ),
    *(
        (lambda make=make, std=std: make(std=std), f"std={re.escape(str(std))} must be between 0 and 1e30")
        for std in (math.inf, math.nan, 1e300, -1.0)
        for make in (
            partial(CoPE, 8, 2),
            partial(DeBERTa, 8, 2),
            partial(Decomposed, 8, 2),
            partial(Inkling, 8, 2),
            partial(LayoutLM, 2),
            partial(Learned, 8, 4),
            partial(LearnedGrid, 8, 4),
            partial(Shaw, 8, 2),
            partial(T5, 2),
            partial(Window, 2),
        )
    ),
    (lambda: Inkling(0, 2), "width=0 must be at least 1"),
    (lambda: Inkling(8, 2, extent=0), "extent=0 must be at least 1"),
    (lambda: Inkling(8, 2, log_floor=0), "log_floor=0 must be at least 1, or None"),
    (lambda: Inkling(8, 2, clip=0.0), "clip=0.0 must be a finite number above 0; Inkling 2 uses 8"),
    (lambda: Inkling(8, 2, log_amount=-1.0), "log_amount=-1.0 must be finite and not negative"),
    (lambda: Kerple(0), "heads=0 must be at least 1"),
    (lambda: Layers({"nope": NoPE()}, ()), r"layer_types=\(\) must be a list of the type of every layer"),
    (
        lambda: Layers({"fox": FoX(8, 2)}, ("fox",)),
        "layers=None, but fox has its own parameters in every layer; pass layers=n, the number",
    ),
    (lambda: Learned(0, 4), "num_positions=0 must be at least 1"),
    (lambda: encoding("learned", width=8), "Learned needs num_positions; add num_positions=…"),
    (
        lambda: LearnedRotary(8, pairing="half", rotary_dim=6, axes=2),
        r"rotary_dim=6 must be a multiple of 2·axes=4 and at most head_dim=8",
    ),
    (lambda: LearnedRotary(8, pairing="half", axes=0), "axes=0 must be at least 1"),
    (
        lambda: LearnedRotary(8, pairing="half", groups=2).at(arange(2)).rotate(THREE_HEADS, THREE_HEADS),
        "q or k has 3 heads; the number of heads must be a multiple of groups=2",
    ),
    (
        lambda: LearnedRotary(8, pairing="half", groups=2).at(arange(2)).slice_heads(0, 1),
        "number of query heads, a multiple of groups=2, but the encoding has heads=None; pass heads= when",
    ),
    (
        lambda: FoPE(8, 64, pairing="half", groups=4, heads=8).at(arange(2)).slice_heads(4, 8).slice_heads(4, 8),
        "first=4 and last=8 must be within the 4 heads of the rotation; count heads from 0",
    ),
    (
        lambda: Layers({"a": FoX(8, 2), "a_1": NoPE()}, ("a_1", "a"), layers=2),
        "the layer type 'a_1', but this is also the name of layer 1, of type 'a', in by_name; rename",
    ),
    *(
        (lambda limits=limits: Layers({"a": NoPE()}, ("a",), **limits), message)
        for limits, message in (
            ({"windows": 8}, r"windows is 8; expected a dict from layer types to numbers of tokens, such as \{'l"),
            ({"windows": {"a": 0}}, r"windows\['a'\]=0 must be at least 1"),
            ({"chunks": {"a": 0}}, r"chunks\['a'\]=0 must be at least 1"),
            ({"chunks": {"a": 2.5}}, r"chunks\['a'\]=2.5 must be an integer"),
        )
    ),
    (lambda: Rotary(8, pairing="half", axes=(2, 2)), r"axes is \(2, 2\); expected AxisMap"),
    (lambda: Window(2, size=7), r"size is 7; expected Sequence\[int\]$"),
    (lambda: Stack([ROPE]), r"got \['list'\]; pass the encodings one by one: posenc.Stack\(rope, alibi\)$"),
    *(
        (
            lambda act=act: act(HEADS.to(torch.float8_e4m3fn)),
            r"q is torch.float8_e4m3fn; expected .* use q.float\(\)",
        )
        for act in (
            lambda q: attention(q, q, q, NoPE().at(arange(3))),
            lambda q: ROPE.at(arange(3)).rotate(q, q),
        )
    ),
    (lambda: PoPE(8, 2, rotary_dim=9), r"rotary_dim=9 must be between 1 and head_dim=8"),
    (
        lambda: PoPE(8, 2).at(arange(2)).rotate(THREE_HEADS, THREE_HEADS),
        r"q has 3 heads but the encoding has angles for 2 heads; .*slice_heads",
    ),
    (
        lambda: attention(THREE_HEADS, THREE_HEADS, THREE_HEADS, PoPE(8, 3).at(arange(2))),
        r"q has 8 channels per head, too few for a result of this encoding's rotate\(\)",
    ),
    (lambda: QueryScale(floor=0), "floor=0 must be at least 1"),
    (lambda: QueryScale(amount=-0.1), r"amount=-0.1 must be finite and not negative; released models use 0.1"),
    (lambda: Sandwich(0), "heads=0 must be at least 1"),
    (lambda: Sandwich(2, channels=7), "channels=7 must be even and at least 2"),
    (lambda: Sandwich(2, first=2), "first=2 must be 1, as in the paper, or 0"),
    (lambda: Sandwich(2, base=1.0), "base=1.0 must be finite and above 1"),
    (lambda: Shaw(0, 2), "head_dim=0 must be at least 1"),
    (lambda: Shaw(8, 2, behind=-1), "behind=-1 and ahead=8 must be at least 0, and at least one must be above 0"),
    (lambda: Shaw(8, 2, behind=0, ahead=0), "behind=0 and ahead=0 must be at least 0"),
    (lambda: Sinusoidal(0), "width=0 must be at least 1"),
    (lambda: Sinusoidal(7, base=0.5), "base=0.5 must be finite and above 1"),
    (lambda: Sinusoidal(8, base=0.5), "base=0.5 must be finite and above 1"),
    (
        lambda: Sinusoidal(7, spacing="tensor2tensor"),
        "width=7 must be even if spacing='tensor2tensor'; use width=8",
    ),
    (lambda: SSMax(4, length=1), "length=1 must be at least 2"),
    (lambda: SSMax(0), "heads=0 must be at least 1"),
    (lambda: TransformerXL(7, 2, 8), "width=7 must be even and at least 2"),
    (lambda: TransformerXL(8, 0, 8), "heads=0 must be at least 1"),
    (
        lambda: XPos(8, pairing="half", scale_base=8),
        "scale_base=8 must be at least 64; the paper",
    ),
    (lambda: XPos(8, pairing="half", gamma=0), "gamma=0 must be a finite number above 0; the paper uses"),
    (lambda: AxisMap((0, 2)), r"axis_of_pair=\(0, 2\) must contain every axis from 0 to the largest"),
    (lambda: AxisMap((0.0, 1.0)), r"axis_of_pair=\(0.0, 1.0\) must contain every axis from 0 to the largest"),
    (lambda: AxisMap((0, 1), units=("1/2", "-1/3")), "must be 2 positive fractions, one per axis"),
    (
        lambda: AxisMap((0, 1), (0,)),
        r"index_of_pair=\(0,\) must be 2 numbers, each below the number of frequencies of its axis",
    ),
    (lambda: AxisMap((0, 1), (0, 2)), r"index_of_pair=\(0, 2\) must be 2 numbers"),
    (lambda: AxisMap((0, 1), (0, 0), (1,)), r"pairs_of_axis=\(1,\) must be 2 numbers, one per axis"),
    (lambda: chunked(4, 0), r"sections=\(4, 0\) must be whole numbers of at least 1: the number of pairs"),
    (lambda: strided(1, 2), r"strided\(1, 2\): these sections cannot be interleaved; the first one must be"),
    (lambda: alternating(2, 5), r"alternating\(2, 5\): the number of pairs must be a multiple of"),
    (
        lambda: first_last(2, 1, 2),
        r"first_last\(2, 1, 2\) must have a section for time and equal sections for the other",
    ),
    (lambda: dealt(2, 5), r"dealt\(2, 5\): the number of pairs must be a multiple of"),
    (lambda: axial(2, 2, order=(0, 2)), r"order=\(0, 2\) must contain every axis from 0 to 1 exactly once"),
    (lambda: axial(2, 2, order=1), "order=1 must contain every axis from 0 to 1 exactly once"),
    (lambda: alternating(2, 4.0), r"alternating\(2, 4.0\): the number of pairs must be a multiple of .* whole"),
    (lambda: axial(2, 2, units=(0.1, 0.2)), r"units=\(0.1, 0.2\) must be fractions, one per axis, such as"),
    (lambda: axial(2, 2, units=3), "units=3 must be fractions, one per axis, such as"),
    (lambda: axial(2, 2, units=("1/14",)), "must be 2 positive fractions, one per axis"),
    (lambda: axial(2, 2, units=("a", "b")), r"units=\('a', 'b'\) must be fractions, one per axis, such as"),
    (lambda: Rotary(10, pairing="half", axes=axial(2, 2)), "has 4 pairs of channels, but rotary_dim=10"),
    (
        lambda: Rotary(10, pairing="half", axes=AxisMap((0, 1), (0, 0), (1, 1), units=("1/2", 3))),
        r"axes=AxisMap\(\(0, 1\), \(0, 0\), \(1, 1\), units=\('1/2', '3'\)\) has 2 pairs of channels",
    ),
    (
        lambda: Rotary(8, pairing="half", axes=axial(2, 2)).at(arange(4)),
        r"has shape \(4,\); this encoding has 2 axes, so positions must be of shape \(2, T\) or \(2, B, T\)",
    ),
    (lambda: Window(0), "heads=0 must be at least 1"),
    (lambda: Window(2, size=(7,)), r"size=\(7,\) must be two or more whole numbers of at least 1"),
    (lambda: Window(2, size=(7, 0)), r"size=\(7, 0\) must be two or more whole numbers"),
    (lambda: LayoutLM(2, buckets=(32, 64)), r"buckets=\(32, 64\) and max_distance=\(128, 256, 256\) must have"),
    (lambda: LayoutLM(2, buckets=(32, 7, 64)), "buckets=7 must be even"),
    (lambda: Stack(), r"stack must be built from encodings; got \[\]"),
    (lambda: Stack(ROPE, "nope"), r"stack must be built from encodings; got \['Rotary', 'str'\]"),
    (lambda: ALiBi(4).at(arange(3)).slice_heads(0, "2"), "last='2' must be an integer"),
    (
        lambda: ALiBi(4).at(arange(3)).slice_heads(2, 2),
        "first=2 and last=2 must be a range of query heads, last excluded: 0 ≤ first < last",
    ),
    (
        lambda: Stack(ALiBi(8), T5(4)).at(arange(3)),
        "encodings in this stack have 4 and 8 heads; build each",
    ),
    (lambda: Stack(ALiBi(8), T5(1)).at(arange(3)), "encodings in this stack have 1 and 8 heads"),
    (lambda: Stack(ALiBi(8), SSMax(4)).at(arange(3)), "encodings in this stack have 4 and 8 heads"),
    (
        lambda: ALiBi(8).at(arange(3)).slice_heads(4, 12),
        "first=4 and last=12 must be within the 8 heads of the bias",
    ),
    (
        lambda: SSMax(8).at(arange(3)).slice_heads(4, 12),
        "first=4 and last=12 must be within the 8 heads of the scale",
    ),
    (lambda: SinusoidalGrid(10), "width=10 must be a multiple of 4 for two axes of equal width; for other"),
    (lambda: SinusoidalGrid(16, axes=axial(2, 2)), r"axes=axial\(2, 2\) has 4 pairs of channels, but width=16"),
    (lambda: SinusoidalGrid(16, order="rows"), "unknown order 'rows'"),
    (lambda: SinusoidalGrid(16).at(torch.arange(3)), r"positions has shape \(3,\); this encoding has 2 axes"),
    (lambda: Rotary(64.0, pairing="half"), "head_dim=64.0 must be an integer"),
    (lambda: Rotary(8, pairing="half", base="1e4"), "base='1e4' must be a number"),
    (lambda: Sinusoidal(8.0), "width=8.0 must be an integer"),
    (lambda: Sinusoidal(8, scale=float("nan")), "scale=nan must be a finite number"),
    (lambda: Learned(8.0, 4), "num_positions=8.0 must be an integer"),
    (
        lambda: Rotary(4, pairing="half", scaling=NTK(1e200)),
        r"factor=1e\+200 is too large, because the base overflows",
    ),
    (
        lambda: Rotary(4, pairing="half", phases="float32", scaling=PerPair((1e-45, 1.0))),
        "use phases='exact'",
    ),
    (lambda: ROPE.at(3), "positions is 3; expected an integer tensor"),
    (lambda: ROPE.at([0, 1]), r"positions is \[0, 1\]; expected an integer tensor"),
    (
        lambda: ROPE.at(arange(3), dtype=torch.int64),
        "dtype=torch.int64 must be a floating",
    ),
    (
        lambda: Rotary(7, pairing="half"),
        "head_dim=7 must be even and at least 2, because channels rotate in pairs; use 8",
    ),
    (lambda: FoPE(7, 64, pairing="half"), "head_dim=7 must be even and at least 2"),
    (lambda: FoPE(8, 1, pairing="half"), "num_positions=1 must be at least 2"),
    (lambda: PoPE(8, 2, scaling=DynamicNTK(2.0, 64)), "scaling=DynamicNTK.* must be a Scaling"),
    (lambda: LearnedRotary(8, pairing="half", base=-1.0), "base=-1.0 must be finite and above 1"),
    (
        lambda: Kerple(2).set(torch.tensor([-1.0, 1.0]), torch.ones(2)),
        r"size=\[-1.0, 1.0\] must have shape \(2,\) and be above 0",
    ),
    (
        lambda: Kerple(2, kernel="power").set(torch.ones(2), torch.full((2,), 2.0)),
        r"growth=\[2.0, 2.0\] must have shape \(2,\) and be above 0 and below 2; the authors' code clamps values",
    ),
    (lambda: Kerple(2).set(torch.tensor(2.0), torch.ones(2)), r"size=2.0 must have shape \(2,\) and be above 0"),
    (lambda: Kerple(2).set([1.0, 1.0], torch.ones(2)), r"size is \[1.0, 1.0\]; expected a tensor"),
    (lambda: Layers({"a": Rotary(8, pairing="half")}, ("a",), layers=0), "layers=0 must be at least 1"),
    (lambda: from_cu_seqlens(torch.tensor([0, 2, 2])), "cu_seqlens goes from 2 to 2 at index 2, but every"),
    (lambda: from_cu_seqlens(torch.tensor([0.0, 2.0])), "cu_seqlens is torch.float32 of shape"),
    (
        lambda: from_cu_seqlens(torch.tensor([1, 2])),
        r"cu_seqlens is torch.int64 of shape \(2,\) and starts with \[1, 2\]",
    ),
    (lambda: sharded(16.0, 0, 2), "length=16.0 must be an integer"),
    (lambda: from_bthd(torch.zeros(2, 3, 4)), r"x has shape \(2, 3, 4\); expected \(B, T, H, D\)"),
    (lambda: arange(3.5), "length=3.5 must be an integer"),
    (lambda: packed([2.5, 1]), r"lengths\[0\]=2.5 must be an integer"),
    (
        lambda: ROPE.at(arange(3)).rotate(*torch.ones(2, 1, 2, 3, 8, dtype=torch.int64)),
        "q is torch.int64; expected a floating-point dtype",
    ),
    (
        lambda: Rotary(8, pairing="half").to("meta").at(arange(3)),
        "positions is on cpu but the encoding's",
    ),
    (lambda: Learned(8, 4).to("meta").at(arange(3)), "positions is on cpu but the encoding's"),
    (
        lambda: ROPE.at(arange(3)).rotate(*torch.ones(2, 1, 2, 3, 8, device="meta")),
        "q is on meta but the encoding was placed on cpu",
    ),
    (
        lambda: ROPE.at(arange(6).view(2, 3)).rotate(*torch.ones(2, 2, 2, 4, 3, 8)),
        r"q has shape \(2, 2, 4, 3, 8\); expected \(B, heads, length, channels\)",
    ),
    (
        lambda: Sinusoidal(8).at(arange(6).view(2, 3)).embed(torch.zeros(2, 2, 3, 8)),
        r"x has shape \(2, 2, 3, 8\); expected \(B, length, width=8\)",
    ),
    (lambda: Sinusoidal(8).at(arange(2)).embed(torch.zeros(2, 8)), r"x has shape \(2, 8\); expected"),
    (
        lambda: rerotate(
            torch.ones(2, 2, 4, 3, 8),
            arange(6).view(2, 3),
            Rotary(8, pairing="half"),
            Rotary(8, pairing="half", base=5e5),
        ),
        r"k has shape \(2, 2, 4, 3, 8\); expected \(B, heads, length, channels\)",
    ),
    (
        lambda: rerotate(HEADS.to(torch.int8), arange(3), NoPE(), ROPE),
        "k is torch.int8; expected a floating-point dtype; dequantise the keys first",
    ),
    (
        lambda: ALiBi(2, slopes=(0.5,)),
        r"slopes=\(0.5,\) must be a list of 2 finite numbers of at least 0, one per head; use 0",
    ),
    (lambda: ALiBi(2, slopes=(0.5, -0.5)), "must be a list of 2 finite numbers"),
    (lambda: ALiBi(2, slopes=(0.5, float("nan"))), "must be a list of 2 finite numbers"),
    (lambda: ALiBi(2, slopes=0.5), "must be a list of 2 finite numbers"),
    (lambda: ALiBi(2, slopes=(0.5, 0), max_exponent=4), "max_exponent=4 and slopes cannot be combined"),
    (lambda: T5(heads=0), "heads=0 must be at least 1"),
    (lambda: T5(heads=4, softmax_scale=0), "softmax_scale=0 must be a finite number above 0"),
    (lambda: T5(heads=2, buckets=2), "buckets=2 must be even and at least 4; T5 has 32"),
    (lambda: T5(heads=2, buckets=31), "buckets=31 must be even and at least 4; T5 has 32"),
    (lambda: T5(heads=2, max_distance=16), "max_distance=16 must be above 16, because distances below 16 have"),
    (lambda: T5(heads=2, max_distance=8, two_sided=True), "max_distance=8 must be above 8"),
    (lambda: LearnedGrid(0, 8), "num_positions=0 must be at least 1"),
    (lambda: LearnedGrid(4, 8, tables="rows"), "unknown tables 'rows'"),
    (lambda: LearnedGrid(4, 8, resize="timn"), "unknown resize 'timn'; did you mean 'timm'"),
    *(
        (lambda kernel=kernel: Resize(kernel), f"unknown kernel '{kernel}'")
        for kernel in ("bicubic", "bilinear", "nearest", "Cubic")
    ),
    (lambda: LearnedGrid(4, 8).resized(2, 2), "resize=None is not a convention"),
    (lambda: LearnedGrid(4, 8).resized(0, 2, "vit"), "rows=0 must be at least 1"),
    (
        lambda: gathered(torch.zeros(4, 4, 8), grid(2, 2), grid(2, 2), "timm"),
        r"for each token depends on the size of the image; resize the table first with LearnedGrid.resized",
    ),
    (
        lambda: LearnedGrid(4, 8).to("meta").at(grid(2, 2)),
        "positions is on cpu but the encoding's weight is on meta",
    ),
    (
        lambda: Rotary(8, pairing="half", rotary_dim=10),
        "rotary_dim=10 must be at most head_dim=8",
    ),
    (lambda: Rotary(8, pairing="half", rotary_dim=0), "rotary_dim=0 must be even and at least 2"),
    (lambda: Rotary(7, pairing="half", rotary_dim=7), "head_dim=7 must be even and at least 2"),  # as of a config
    (lambda: encoding("rotary(base=large)", head_dim=8), "base='large' must be a number; write it in digits"),
    (
        lambda: encoding("rotary(rotary_dim=half)", head_dim=8),
        "rotary_dim='half' must be an integer; write it in digits",
    ),
    (lambda: Rotary(8, pairing="half", rotary_dim=-2), "rotary_dim=-2 must be even and at least 2"),
    (lambda: Default().frequencies("64", 1e4), "rotary_dim='64' must be an integer"),
    (lambda: Default().frequencies(64, "1e4"), "base='1e4' must be finite and above 1"),
    (lambda: Rotary(8, pairing="half", base=-1.0), "base=-1.0 must be finite and above 1"),
    (lambda: Clock([1.0, 2.0]), r"frequencies is \[1.0, 2.0\]; expected Frequencies, such as scaling.freq"),
    (lambda: Clock(Frequencies((), ())), "frequencies is empty; pass at least one"),
    (
        lambda: NoPE().at(arange(3), arange(3, device="meta")),
        r"positions is on cpu but k_positions is on meta; use k_positions.to",
    ),
    *(
        (act, r"use the placed encoding of one layer: placed\[layer\]")
        for act in (
            lambda: LAYERED.at(arange(3)).rotate(HEADS, HEADS),
            lambda: LAYERED.at(arange(3)).with_content(torch.zeros(1, 3, 32)),
        )
    ),
    (
        lambda: attention(HEADS, HEADS, HEADS, LAYERED.at(arange(3))),
        r"use the placed encoding of one layer: placed\[layer\]",
    ),
    (
        lambda: LAYERED.at(arange(5)).slice_heads(0, 4),
        r"heads can be sliced only in a single layer.* placed\[layer\]",
    ),
    (lambda: Stack(ROPE, FoX(16, 4)).at(arange(5)).slice_heads(0, 2), r"then layer_placed\.slice_heads"),
    (
        lambda: Layers({"rope": CHUNKED, "alibi": ALiBi(4)}, ("rope", "alibi")).at(arange(5)),
        r"this encoding has 3 axes, so positions must be of shape \(3, T\) or \(3, B, T\)",
    ),
    (lambda: Decomposed(8, 2, size=(4, 5)).enlarged(6), r"places=\(6,\) must have 2 numbers, one per axis"),
    (
        lambda: rerotate(
            HEADS, torch.zeros(3, 3).long(), CHUNKED, Rotary(8, pairing="half", axes=strided(2, 1, 1))
        ),
        "from_ has axis_map=",
    ),
    (lambda: ROPE.at(arange(7)).unrotate(HEADS), "placed at 7 positions"),
    (lambda: Stack(XPOS, Shaw(8, 2)), "xPos multiplies queries and keys by factors"),
    (lambda: Stack(XPOS, XPos(8, pairing="half")), "xPos multiplies queries and keys by factors"),
    *(
        (
            lambda old=old, new=new: rerotate(torch.zeros(1, 3, 9, 16), arange(9), old, new),
            message,
        )
        for old, new, message in IMMOVABLE
    ),
    (
        lambda: ROPE.at(arange(3)).rotate(torch.zeros(2, 4, 3, 6), HEADS),
        r"q has shape \(2, 4, 3, 6\); its last axis must have size head_dim=8",
    ),
    (lambda: ROPE.at(arange(3)).rotate(HEADS, HEADS[:, :, :2]), "k has length 2 but the encoding was"),
    (
        lambda: ROPE.at(torch.zeros(3, 3, dtype=torch.int64)).rotate(HEADS, HEADS),
        "q has batch size 2 but the encoding was placed at 3 rows of positions",
    ),
    (
        lambda: Sinusoidal(8).at(arange(3)).embed(torch.zeros(1, 3, 6)),
        r"\(1, 3, 6\); expected \(B, length, width=8\)",
    ),
    (lambda: Sinusoidal(8).at(arange(3)).embed(torch.zeros(1, 4, 8)), "x has length 4 but the encoding was placed"),
    (
        lambda: Sinusoidal(8).at(torch.zeros(3, 4, dtype=torch.int64)).embed(torch.zeros(2, 4, 8)),
        "x has batch size 2 but the encoding was placed at 3 rows of positions",
    ),
    (
        lambda: attention(HEADS, HEADS, HEADS, FoX(6, 4).at(arange(3)), causal=True),
        r"depends on the tokens; instead of placed, pass the first result of placed.with_content",
    ),
    (
        lambda: attention(
            HEADS[:, :, 2:],
            HEADS,
            HEADS,
            FoX(6, 4).at(arange(1, offset=2), arange(3)).with_content(torch.zeros(2, 1, 6))[0],
            causal=True,
        ),
        r"gates of 1 keys, but attention got 3 keys; pass the state of the cached keys to with_content\(\)",
    ),
    (lambda: CoPE(4, 2).at(arange(3)).bias.rows(0, 3, 3), "this bias is computed from scores: call"),
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
    (lambda: Rotary(8, pairing="halves"), "unknown pairing 'halves'; did you mean 'half'"),
    (lambda: Rotary(8, pairing="half", backend="nativ"), "unknown backend 'nativ'; did you mean 'native'"),
    (lambda: Clock(Default().frequencies(8, 1e4), "float"), "unknown phases 'float'; did you mean 'float32'"),
]

POSITIONS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: Decomposed(8, 2, size=(9, 3)).at(grid(2, 5)),
        r"q?_?positions\[1\] contains 4; the last position of this encoding is 2",
    ),
    (lambda: LearnedRotary(8, pairing="half").at(torch.tensor([-1])), "-1"),
    (
        lambda: Learned(512, 8).at(arange(513)),
        "positions contains 512, but the learned table has 512 rows: its last position is 511",
    ),
    (lambda: Learned(512, 8).at(arange(600)), "train a longer table, or pass past_end='clamp'"),
    (lambda: Learned(512, 8).at(arange(3), arange(600)), "k_positions contains 599"),
    *(
        (
            lambda past_end=past_end: Learned(8, 4, past_end=past_end).at(torch.tensor([-1, 99])),
            "positions contains -1; the lowest allowed position is 0",
        )
        for past_end in ("error", "clamp")
    ),
    (
        lambda: Learned(8, 4, past_end="clamp").at(torch.tensor([2**31])),
        "positions contains 2147483648; the last position of this encoding is 2147483647",
    ),
    (
        lambda: Rotary(8, pairing="half", axes=axial(2, 2)).at(torch.tensor([[-LAST], [0]])),
        f"positions contains -{LAST}; the lowest allowed position is 0",
    ),
    (lambda: XPOS.at(torch.tensor([LAST + 1])), PAST),
    (lambda: XPOS.at(torch.tensor([5]), torch.tensor([LAST + 1])), PAST),
    (
        lambda: rerotate(torch.randn(1, 1, 1, 16), torch.tensor([5]), XPOS, XPOS, torch.tensor([LAST + 1])),
        PAST,
    ),
    (
        lambda: LearnedGrid(4, 8, columns=5).at(grid(3, 6)),
        r"positions\[1\] contains 5, but this table is for pictures of 4 rows and 5 columns; call resized",
    ),
    (lambda: LearnedGrid(4, 8).at(grid(2, 2, corner=-1)), "contains -1; the lowest allowed position is 0"),
    (
        lambda: Window(2, size=(3, 4)).at(torch.tensor([[3], [0]])),
        r"positions\[0\] contains 3; the last position of this encoding is 2",
    ),
    (
        lambda: Window(2, size=(3, 4)).at(torch.tensor([[0], [4]])),
        r"positions\[1\] contains 4; the last position of this encoding is 3",
    ),
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
