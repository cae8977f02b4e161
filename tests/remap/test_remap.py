"""Remapped positions: attention over the distances that the papers say, in every way in which text is fed."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Mask, Rotary
from posenc.attend import attend as attend_module
from posenc.encodings.placed import RemappedPart
from posenc.errors import InvalidArgument, PosencError
from posenc.positions import left_padded, packed
from posenc.remap import DCA, STRING, Remap, ReRoPE, SelfExtend
from support import remapped
from support.attending import same_gradients
from support.operators import Operators

ROPE = Rotary(8, pairing="half")
CASES: list[tuple[Remap, dict[str, Any]]] = [
    (SelfExtend(ROPE, group=3, window=7), {"group": 3, "window": 7}),
    (SelfExtend(ROPE, group=4, window=8), {"group": 4, "window": 8}),
    (DCA(ROPE, chunk=9, local=4), {"chunk": 9, "local": 4}),
    (DCA(ROPE, chunk=6, local=6), {"chunk": 6, "local": 6}),
    (ReRoPE(ROPE, window=7), {"window": 7}),
    (STRING(ROPE, shift=11, window=3), {"shift": 11, "window": 3}),
]
EVERY = pytest.mark.parametrize(("encoding", "settings"), CASES, ids=lambda x: getattr(x, "name", ""))


def used(encoding: Remap, settings: dict[str, Any]) -> remapped.Used:
    return remapped.USED[encoding.name](**settings)


def drawn(T: int, B: int = 2, H: int = 4, K: int = 2, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(T)
    shapes = (B, H, T, 8), (B, K, T, 8), (B, K, T, 8)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)


def attended(
    encoding: posenc.Encoding, q: Tensor, k: Tensor, v: Tensor, at: Tensor, mask: Mask | None = None, **more: Any
) -> Tensor:
    placed = encoding.at(at, dtype=q.dtype)
    return posenc.attention(*placed.rotate(q, k), v, placed, mask or Mask(causal=True), **more)


def near(got: Tensor, want: Tensor, bound: float = 1e-12) -> bool:
    return got.shape == want.shape and bool((got - want).abs().max() <= bound)


@EVERY
def test_scores_are_those_of_the_papers_distances(encoding: Remap, settings: dict[str, Any]) -> None:
    """Outputs with sinks and grouped heads, logsumexps, dense scores, and gradients of everything."""
    T, sinks = 40, torch.linspace(-1, 2, 4, dtype=torch.float64).requires_grad_()
    leaves = [x.requires_grad_() for x in drawn(T)]
    at = torch.arange(T)
    distances = remapped.matrix(used(encoding, settings), at, at)
    want = remapped.attention(*leaves, distances, torch.ones(T, T).tril().bool(), sinks)
    got = attended(encoding, *leaves, at, sinks=sinks)
    assert near(got, want)
    same_gradients(got, want, [*leaves, sinks], 1e-11)
    placed = encoding.at(at, dtype=torch.float64)
    q, k = placed.rotate(*leaves[:2])
    dense = posenc.scores(q, k, placed, causal=True, sinks=sinks).softmax(-1)[..., :T]
    assert near(dense @ leaves[2].repeat_interleave(2, dim=1), want)


@pytest.mark.parametrize(
    "case", [(SelfExtend(ROPE, 4, 64), {"group": 4, "window": 64}), (ReRoPE(ROPE, 300), {"window": 300})]
)
def test_several_blocks_of_rows_see_what_the_whole_sees(case: tuple[Remap, dict[str, Any]]) -> None:
    """Long enough for several blocks of rows, after a cache, with sinks and gradients; padding and gaps too."""
    q, k, v = (x.requires_grad_() for x in drawn(600, 1, 2, 1))
    at = torch.arange(600) + (torch.arange(600) > 400) * 30
    rows, sinks = slice(50, 600), torch.tensor([0.5, -1.0], dtype=torch.float64)
    distances = remapped.matrix(used(*case), at[rows], at)
    causal = torch.ones(600, 600).tril().bool()[rows]
    for key_mask in (None, (torch.arange(600) >= 20)[None]):
        visible = causal if key_mask is None else causal & key_mask
        placed = case[0].at(at[rows], at, dtype=torch.float64)
        rotated = q[:, :, rows], case[0].rotate_keys(k, at)
        y = posenc.attention(*rotated, v, placed, Mask(causal=True, key_mask=key_mask), sinks=sinks)
        want = remapped.attention(q[:, :, rows], k, v, distances, visible, sinks)
        assert near(y, want)
        same_gradients(y, want, [q, k, v], 1e-11)


@EVERY
def test_gaps_padding_and_documents_have_the_distances_of_their_positions(
    encoding: Remap, settings: dict[str, Any]
) -> None:
    q, k, v = drawn(30)
    causal = torch.ones(30, 30).tril().bool()
    gaps = torch.cumsum(torch.arange(30) % 3, 0)
    distances = remapped.matrix(used(encoding, settings), gaps, gaps)
    assert near(attended(encoding, q, k, v, gaps), remapped.attention(q, k, v, distances, causal))
    at, segments = packed([13, 17])
    together = attended(encoding, q, k, v, at, Mask(causal=True, q_segments=segments))
    for tokens in (slice(0, 13), slice(13, 30)):
        alone = attended(encoding, q[:, :, tokens], k[:, :, tokens], v[:, :, tokens], at[tokens])
        assert near(together[:, :, tokens], alone)
    mask = torch.arange(30) >= torch.tensor([[0], [11]])
    padded = attended(encoding, q, k, v, left_padded(mask), Mask(causal=True, key_mask=mask))
    alone = attended(encoding, q[1:, :, 11:], k[1:, :, 11:], v[1:, :, 11:], torch.arange(19))
    assert near(padded[1:, :, 11:], alone)
    assert near(padded[:1], attended(encoding, q[:1], k[:1], v[:1], torch.arange(30)))


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_short_text_is_plain_bit_for_bit(encoding: Remap, settings: dict[str, Any], dtype: torch.dtype) -> None:
    """Inside the window, or the first chunk, and in one call of torch's attention."""
    T = settings.get("window") if "shift" not in settings else settings["shift"]
    q, k, v = drawn(T or settings["chunk"], dtype=dtype)
    at = torch.arange(q.shape[2])
    assert torch.equal(attended(encoding, q, k, v, at), attended(ROPE, q, k, v, at))
    placed = encoding.at(at)
    assert posenc.explain(*placed.rotate(q, k), v, placed, causal=True).backend == "sdpa"


@EVERY
def test_no_distance_beyond_the_trained_one(encoding: Remap, settings: dict[str, Any]) -> None:
    """Up to ``longest`` tokens none is used, and with one more token one is."""
    for trained in (1, 3, 4, 5, 7, 9, 13, 16, 20):
        longest = encoding.longest(trained)
        for T in (80,) if longest == math.inf else (int(longest), int(longest) + 1):
            at = torch.arange(T)
            beyond = bool((remapped.matrix(used(encoding, settings), at, at) > trained - 1).any())
            assert beyond == (longest < T)


def test_settings_that_reach_far_serve_the_trained_length() -> None:
    reaching = (SelfExtend(ROPE, 2, 17), DCA(ROPE, 12, 5), ReRoPE(ROPE, 16), STRING(ROPE, 17, 2))
    assert {encoding.longest(16) for encoding in reaching} == {16}


def wrong_window(parts: tuple[RemappedPart, ...]) -> list[RemappedPart]:
    near_part, *others = parts
    edge = near_part.q_from + 1  # type: ignore[operator]
    return [replace(near_part, q_from=edge), *(replace(part, q_until=edge) for part in others[:1]), *others[1:]]


MUTANTS: dict[str, Callable[[tuple[RemappedPart, ...]], list[RemappedPart]]] = {
    "a wrong window": wrong_window,
    "far sees near": lambda parts: [*parts[:-1], replace(parts[-1], q_until=parts[-1].q_until + 1)],
    "far at near positions": lambda parts: [
        *parts[:-1],
        replace(parts[-1], queries=parts[0].queries, keys=parts[0].keys),
    ],
    "far left out": lambda parts: list(parts[:-1]),
}


@EVERY
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_rejected(encoding: Remap, settings: dict[str, Any], mutant: Callable[..., Any]) -> None:
    q, k, v = drawn(40)
    at = torch.arange(40)
    want = remapped.attention(
        q, k, v, remapped.matrix(used(encoding, settings), at, at), torch.ones(40, 40).tril().bool()
    )
    placed = encoding.at(at, dtype=torch.float64)
    placed.remaps = tuple(mutant(placed.remaps))
    assert not near(posenc.attention(*placed.rotate(q, k), v, placed, causal=True), want, 1e-4)


def test_sinks_counted_in_every_part_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = drawn(40)
    at, sinks = torch.arange(40), torch.ones(4, dtype=torch.float64)
    want = attended(CASES[0][0], q, k, v, at, sinks=sinks)
    merge = attend_module.merge
    monkeypatch.setattr(attend_module, "merge", lambda parts, s: merge([merge([part], s) for part in parts]))
    assert not near(attended(CASES[0][0], q, k, v, at, sinks=sinks), want, 1e-4)


def multiplied(operators: Operators) -> int:
    """The products of a query and a key in torch's attention, where half of the keys are hidden if it is causal."""
    calls = [(*one.args[:2], len(one.args) > 4 and one.args[4]) for one in operators.attention]
    return sum(q[:3].numel() * k[2] // (2 if q[2] == k[2] and causal else 1) for q, k, causal in calls)


LARGE = (
    SelfExtend(ROPE, group=4, window=1024),
    DCA(ROPE, chunk=1024, local=256),
    ReRoPE(ROPE, window=1024),
    STRING(ROPE, shift=1024, window=128),
)


@pytest.mark.parametrize(("encoding", "training"), [*zip(LARGE, (False, True, True, True), strict=True)])
def test_memory_is_linear_and_little_is_computed_besides(encoding: Remap, training: bool) -> None:
    """Of 2048 tokens parts compute at most 1.3 times what they see, and nobody holds T·S numbers a head."""
    q, k, v = (x.requires_grad_(training) for x in drawn(2048, 1, 4, 1, torch.float32))
    with torch.set_grad_enabled(training), Operators() as operators:
        attended(encoding, q, k, v, torch.arange(2048))
    assert 0 < multiplied(operators) <= 1.3 * 4 * 2048 * 2049 / 2
    assert max(operators.sizes) <= 4 * 256 * 2048


def test_a_step_of_decoding_computes_the_keys_once() -> None:
    q, k, v = drawn(2048, 1, 4, 1, torch.float32)
    at = torch.arange(2048)
    for encoding in LARGE:
        placed = encoding.at(at[-1:], at)
        with torch.no_grad(), Operators() as operators:
            posenc.attention(*placed.rotate(q[:, :, -1:], k), v, placed, causal=True)
        assert multiplied(operators) <= 1.01 * 4 * 2048


@pytest.mark.parametrize(
    "text",
    [
        "self-extend(rotary(base=500000), group=8, window=1024)",
        "dca(rotary, chunk=3072, local=384)",
        "rerope(rotary, window=512)",
        "string(rotary(scaling=yarn(factor=4, original_length=4096)), shift=1024, window=128)",
    ],
)
def test_texts_build_and_come_back(text: str) -> None:
    from posenc.encodings.text import parse

    encoding = posenc.encoding(text, head_dim=8)
    assert encoding.name == parse(text).name
    layers = posenc.encoding(f"layers({text}*3 + nope)", head_dim=8)
    assert (layers.windows, layers.layer(3).name) == ({}, "nope")  # type: ignore[attr-defined]
    assert f"{encoding.name}: " in encoding.describe()
    assert encoding.with_scaling(None).name == "nope"
    assert encoding.with_scaling(posenc.scaling.NTK(4.0)).scaling == posenc.scaling.NTK(4.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dca", "does not name the encoding to remap"),
        ("dca(rotary, chunk=3)", "needs local"),
        ("dca(rotary, chunk=3, local=2, x=1)", "unknown setting of dca"),
        ("dca(rotary, 3, 2)", "settings by name"),
        ("dca(rotary, chunk=3, local=4)", "must be at most chunk=3"),
        (
            "dca(alibi, chunk=3, local=2)",
            r'expected a posenc.Rotary.* use posenc.remap.remapped\(layers, "dca\(rotary',
        ),
        ("rerope(rotary, window=0)", "at least 1"),
        ("string(rotary, shift=2, window=5)", "would increase distances"),
        ("stack(rerope(rotary, window=4), rotary)", "no other encoding in the stack"),
        ("stack(rerope(rotary, window=4), deberta)", "no other encoding in the stack"),
        ("rerope(rotary(axes=axial(2, 2)), window=4)", "one axis"),
    ],
)
def test_refusals_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(PosencError, match=message):
        posenc.encoding(text, head_dim=8, heads=4, width=32)


def test_what_attention_cannot_do_in_parts_is_refused() -> None:
    q, k, v = drawn(12)
    encoding, at = CASES[0][0], torch.arange(12)
    with pytest.raises(InvalidArgument, match="defined only for causal"):
        attended(encoding, q, k, v, at, Mask())
    for few in (2, 12):  # also where nothing is far yet, so that training meets it in its first step
        tokens = (x[:, :, :few] for x in (q, k, v))
        with pytest.raises(InvalidArgument, match=r"dropout=0.5 .*remapped positions, .* attention_dropout=0"):
            attended(encoding, *tokens, at[:few], dropout=0.5)


def test_others_in_the_stack_act_in_every_part() -> None:
    """ALiBi's bias, and a scale by query as in the authors' code."""
    q, k, v = drawn(40)
    at = torch.arange(40)
    distances = remapped.matrix(remapped.rerope(7), at, at)
    factors = (at.double() + 1).log().div(math.log(16)).clamp(min=1)
    want = remapped.attention(q * factors[:, None], k, v, distances, torch.ones(40, 40).tril().bool())
    stack = posenc.Stack(ReRoPE(ROPE, 7), posenc.encoding("query-scale(floor=16)"))
    placed = stack.at(at, dtype=torch.float64)
    placed.scale = factors[None, None, :, None]
    assert near(posenc.attention(*placed.rotate(q, k), v, placed, causal=True), want)
    for way in (posenc.Stack(posenc.ALiBi(4), ReRoPE(ROPE, 7)), posenc.Stack(ReRoPE(ROPE, 7), posenc.ALiBi(4))):
        placed = way.at(at, dtype=torch.float64)
        rotated = placed.rotate(q, k)
        dense = posenc.scores(*rotated, placed, causal=True).softmax(-1) @ v.repeat_interleave(2, 1)
        assert near(posenc.attention(*rotated, v, placed, causal=True), dense)


def test_keys_of_a_cache_move() -> None:
    _, k, _ = drawn(12)
    at = torch.arange(12)
    for encoding, _ in CASES:
        kept = encoding.at(at, dtype=torch.float64).rotate(None, k)[1]
        assert near(posenc.rerotate(kept, at, encoding, posenc.NoPE()), k)
        assert near(posenc.rerotate(kept, at, encoding, encoding, at + 5), encoding.rotate_keys(k, at + 5))


def test_yarns_factor_holds_for_unrotated_keys() -> None:
    yarn = Rotary(8, pairing="half", scaling=posenc.scaling.YaRN(4.0, 16))
    q, k, _ = drawn(40)
    placed = ReRoPE(yarn, 7).at(torch.arange(40), dtype=torch.float64)
    far = yarn.at(torch.tensor([7]), torch.tensor([0]), dtype=torch.float64).rotate(q[:, :, -1:], k[:, :, :1])
    got = posenc.scores(*placed.rotate(q, k), placed, causal=True)[..., -1, 0]
    want = (far[0] * far[1].repeat_interleave(2, 1)).sum(-1)[..., 0] / math.sqrt(8)
    assert near(got, want * yarn.softmax_factor)


def test_remapped_layers_keep_the_scaling_of_the_layers_that_are_remapped() -> None:
    layers = posenc.encoding("layers(local(rotary, window=8) + rotary(scaling=yarn(4, 64)))", head_dim=16, layers=4)
    changed = posenc.remap.remapped(layers, "rerope(rotary, window=4)")
    assert changed.scaling == layers.scaling == posenc.scaling.YaRN(4.0, 64)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit")
@pytest.mark.usefixtures("unchecked")
def test_a_trace_of_remapped_attention_is_saved() -> None:
    encoding = SelfExtend(Rotary(8, pairing="half"), group=2, window=4)

    class Attend(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, at: Tensor) -> Tensor:
            placed = encoding.at(at)
            return posenc.attention(*placed.rotate(q, k), v, placed, causal=True)

    def given(length: int) -> tuple[Tensor, ...]:
        return *torch.randn(3, 1, 2, length, 8), torch.arange(length)

    saved = io.BytesIO()
    torch.jit.save(torch.jit.trace(Attend(), given(12), check_trace=False), saved)
    saved.seek(0)
    inputs = given(20)
    torch.testing.assert_close(torch.jit.load(saved)(*inputs), Attend()(*inputs))
