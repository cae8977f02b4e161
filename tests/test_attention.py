"""posenc.attention against dense float64 attention, in every way it can be called."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc
from posenc import ALiBi, NoPE, SSMax
from posenc.attend.blocks import ROWS, TRAINING_ROWS
from posenc.errors import InvalidArgument
from posenc.positions import arange, left_padded, packed
from support import reference
from support.attending import attend, same_gradients
from support.memory import peak_bytes
from support.operators import entered

EXACT = 1e-6
"""Biases are float32: 2^-24 of a slope times distances of a few hundred, through a softmax; the rest is float64."""


def qkv(B: int, H: int, K: int, T: int, S: int, D: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q = torch.randn(B, H, T, D, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(B, K, S, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return q, k, v


def check(
    encoding: posenc.Encoding,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_positions: Tensor,
    k_positions: Tensor,
    *,
    causal: bool,
    key_mask: Tensor | None = None,
    segments: Tensor | None = None,
) -> None:
    """Values and gradients equal the reference's; so do values without autograd, which take another way."""
    placed = encoding.at(q_positions, k_positions)
    masks = {"causal": causal, "key_mask": key_mask, "segments": segments}
    y = attend(q, k, v, placed, **masks)
    T, S = q.shape[2], k.shape[2]
    visible = reference.visible(T, S, causal=causal)[None, None]
    if key_mask is not None:
        visible = visible & key_mask[:, None, None]
    if segments is not None:
        rows = segments.view(-1, 1, segments.shape[-1])
        visible = visible & (rows[..., S - T :, None] == rows[..., None, :])
    bias: Tensor | float = 0.0
    if isinstance(encoding, ALiBi):
        formula = reference.Slopes(reference.slopes(encoding.heads))
        both = zip(q_positions.view(-1, T), k_positions.view(-1, S), strict=True)
        bias = torch.stack([formula.bias(a, b) for a, b in both])
    want = reference.attention(q, k, v, bias, visible)
    torch.testing.assert_close(y, want, rtol=0, atol=EXACT)
    with torch.no_grad():
        torch.testing.assert_close(attend(q, k, v, placed, **masks), y, rtol=0, atol=1e-12)
    same_gradients(y, want, (q, k, v), 20 * EXACT)


ENCODINGS = st.sampled_from(["nope", "alibi"])
EDGES = [ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 5, TRAINING_ROWS, TRAINING_ROWS + 1]
LENGTHS = st.sampled_from([1, 2, 7, 31, *EDGES])
PIECES = st.lists(st.sampled_from([1, 2, 7, 31, ROWS + 1, TRAINING_ROWS]), min_size=1, max_size=3)
HEADS = st.sampled_from([(1, 1), (4, 4), (4, 2), (6, 1), (12, 3)])


def made(name: str, heads: int) -> posenc.Encoding:
    return ALiBi(heads) if name == "alibi" else NoPE()


@given(ENCODINGS, LENGTHS, st.just(0) | LENGTHS, HEADS, st.booleans(), st.sampled_from([0, 3, 10**6 - 1]))
def test_plain_and_cached(name: str, T: int, held: int, heads: tuple[int, int], causal: bool, offset: int) -> None:
    """T new tokens after ``held`` in the cache: none, one token, or a prefill in chunks; wherever they stand."""
    at = arange(held + T, offset=offset)
    check(made(name, heads[0]), *qkv(2, *heads, T, held + T), at[held:], at, causal=causal)


@given(ENCODINGS, PIECES, HEADS, st.booleans())
def test_left_padded(name: str, lengths: list[int], heads: tuple[int, int], causal: bool) -> None:
    longest = max(lengths)
    mask = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    at = left_padded(mask)
    q, k, v = qkv(len(lengths), *heads, longest, longest)
    check(made(name, heads[0]), q, k, v, at, at, causal=causal, key_mask=mask)


@given(ENCODINGS, PIECES, HEADS, st.booleans())
def test_packed(name: str, lengths: list[int], heads: tuple[int, int], causal: bool) -> None:
    at, segments = packed(lengths)
    q, k, v = qkv(1, *heads, len(at), len(at))
    check(made(name, heads[0]), q, k, v, at, at, causal=causal, segments=segments)


@pytest.mark.parametrize("length", [5, TRAINING_ROWS + 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["nope", "alibi"])
def test_rows_that_see_no_key_are_zero_with_finite_gradients(name: str, dtype: torch.dtype, length: int) -> None:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in qkv(2, 4, 2, length, length))
    mask = arange(length) >= torch.tensor([[length], [2]])
    for causal, empty in ((True, 2), (False, 0)):
        y = attend(q, k, v, made(name, 4).at(arange(length)), causal=causal, key_mask=mask)
        assert y.dtype == dtype
        assert not y[0].any()
        assert not y[1, :, :empty].any()
        assert y.isfinite().all()
        gradients = torch.autograd.grad(y.float().sum(), (q, k, v))
        assert all(bool(g.isfinite().all()) for g in gradients)
        assert not gradients[2][0].any()


@pytest.mark.parametrize("name", ["nope", "alibi", "sandwich", "transformer-xl", "deberta", "t5"])
def test_nothing_to_attend_gives_nothing(name: str) -> None:
    encoding = posenc.encoding(name, width=32, heads=4, head_dim=8)
    for T, S, rows in ((0, 3, ...), (3, 0, ...), (9, 0, ...), (3, 0, None)):
        y = attend(*qkv(2, 4, 2, T, S), encoding.at(arange(T)[rows], arange(S)[rows]), causal=T < S)
        assert y.shape == (2, 4, T, 8)
        assert not y.any()


@pytest.mark.parametrize("length", [9, 40, ROWS + 9])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", ["nope", "alibi"])
def test_sixteen_bits_round_scores_and_weights_but_no_bias(name: str, dtype: torch.dtype, length: int) -> None:
    """A kernel rounds weights and result to the type, u·max|v| each; scores and biases stay float32."""
    q, k, v = (x.detach().to(dtype) for x in qkv(2, 12, 4, length, length))
    u = torch.finfo(dtype).eps / 2
    at = arange(length, offset=1000)
    bias = reference.Slopes(reference.slopes(12)).bias(at, at) if name == "alibi" else 0.0
    for causal in (True, False):
        want = reference.attention(q, k, v, bias, reference.visible(length, length, causal=causal))
        got = attend(q, k, v, made(name, 12).at(at), causal=causal)
        assert (got - want).abs().max() <= 3 * u * v.abs().max() + 2e-5


def test_values_may_have_other_channels_than_keys() -> None:
    q, k, _ = qkv(2, 4, 2, 9, 9)
    v = torch.randn(2, 2, 9, 3, dtype=torch.float64, requires_grad=True)
    check(ALiBi(4), q, k, v, arange(9), arange(9), causal=True)


@pytest.mark.parametrize(("threads", "causal"), [(1, True), pytest.param(2, False, marks=pytest.mark.slow)])
def test_alibi_needs_under_two_megabytes(threads: int, causal: bool) -> None:
    """H=8, L=4096, float32, placing included; a bias tensor for these heads would take 537 MB."""
    q, k, v = torch.randn(3, 1, 8, 4096, 64)
    encoding, at = ALiBi(8), arange(4096)
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            extra = peak_bytes(lambda: attend(q, k, v, encoding.at(at), causal=causal, backend="toeplitz"))
    finally:
        torch.set_num_threads(1)
    assert extra < 2_000_000


def placed(T: int = 3, S: int = 5, heads: int = 4) -> posenc.Placed:
    return ALiBi(heads).at(arange(T, offset=S - T), arange(S))


def call(**changes: object) -> None:
    """A call that fits (2 rows, 4 heads over 2, 3 queries, 5 keys, 8 channels), but for these changes."""
    arguments: dict[str, object] = {
        "q": torch.randn(2, 4, 3, 8),
        "k": torch.randn(2, 2, 5, 8),
        "v": torch.randn(2, 2, 5, 8),
        "placed": placed(),
        **changes,
    }
    attend(**arguments)  # type: ignore[arg-type]


META = {
    name: torch.empty(2, heads, T, 8, device="meta") for name, heads, T in (("q", 4, 3), ("k", 2, 5), ("v", 2, 5))
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"k": torch.randn(1, 2, 5, 8), "v": torch.randn(1, 2, 5, 8)},
            "q has batch size 2, k has 1 and v has 1; expand",
        ),
        (
            {"k": torch.randn(2, 3, 5, 8), "v": torch.randn(2, 3, 5, 8)},
            "q has 4 heads, k has 3 and v has 3; k and v must",
        ),
        ({"q": torch.randn(4, 4, 8)}, r"q has shape \(4, 4, 8\); expected .*; add a batch axis: q\[None\]"),
        ({"k": torch.randn(2, 2, 5, 6)}, "q has 8 channels per head and k has 6; q and k must"),
        (
            {"q": torch.randn(2, 4, 4, 8)},
            r"q has length 4 but the encoding was placed at 3 positions; pass one position per token",
        ),
        ({"placed": placed(3, 6)}, "k has length 5 but the encoding was placed at 6 positions"),
        ({"placed": placed(heads=8)}, "q has 4 heads but the bias has 8; build the encoding with heads=4"),
        (
            {"placed": SSMax(8).at(arange(3, offset=2), arange(5))},
            "q has 4 heads but the scale has 8; build the encoding",
        ),
        (
            {"k": torch.randn(2, 2, 5, 8).bfloat16()},
            r"q is torch.float32 and k is torch.bfloat16 and v is torch.float32; q, k and v must have",
        ),
        *(
            (
                {"placed": posenc.encoding(name, heads=4, head_dim=6, width=4).at(arange(3, offset=2), arange(5))},
                r"has 8 channels per head but the bias reads 6; build the encoding with head_dim=8",
            )
            for name in ("shaw", "cope", "deberta", "transformer-xl")
        ),
        ({"placed": NoPE().at(torch.zeros(3, 3, dtype=torch.int64), arange(5))}, "placed at 3 rows of positions"),
        (
            {"key_mask": torch.ones(2, 3, dtype=torch.bool)},
            r"key_mask has shape \(2, 3\); expected \(5,\) or \(B, 5\) with B=2: one per key",
        ),
        (
            {"segments": arange(4)},
            r"k_segments has shape \(4,\); expected \(5,\) or \(B, 5\) with B=2: one per key",
        ),
        ({"segments": torch.zeros(3, 5, dtype=torch.int64)}, r"q_segments has shape \(3, 3\); expected"),
        (
            {"segments": torch.zeros(5)},
            r"q_segments is torch.float32; expected integers; pass q_segments.long\(\)",
        ),
        ({"segments": torch.zeros(5) == 0}, "q_segments is torch.bool; expected integers"),
        (META, "q is on meta but the encoding was placed on cpu"),
        ({"k": torch.empty(2, 2, 5, 8, device="meta")}, "q is on cpu but k is on meta; move k"),
        *(
            ({"placed": placed, name: mask.to("meta")}, f"{name} is on meta but q is on cpu; move")
            for placed in (placed(), NoPE().at(arange(3, offset=2), arange(5)))
            for name, mask in (("key_mask", torch.ones(2, 5) > 0), ("segments", arange(5)))
        ),
        ({"placed": None}, r"placed is None; place the encoding first: encoding.at\(positions\)"),
        ({"placed": ALiBi(4)}, "placed is ALiBi; place the encoding first"),
        *(
            (
                {"scale": scale, "placed": NoPE().at(arange(3), arange(5))},
                f"scale={scale} must be a finite number above 0",
            )
            for scale in (0.0, -0.5, math.nan, math.inf)
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_said(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call(**changes)


def test_more_queries_than_keys_are_refused_where_rows_must_align() -> None:
    q, k, v = qkv(1, 4, 4, 5, 3)
    at = NoPE().at(arange(5), arange(3))
    for mask in (posenc.Mask(causal=True), posenc.Mask(window=2)):
        with pytest.raises(InvalidArgument, match=r"more tokens \(5\) than k \(3\); with this mask, pass q_order"):
            posenc.attention(q, k, v, at, mask)
    apart = posenc.Mask(causal=True, q_order=arange(5), k_order=arange(3))
    assert posenc.attention(q, k, v, at, apart).shape == (1, 4, 5, 8)
    assert attend(q, k, v, at).shape == (1, 4, 5, 8)


def test_dropout_drops_weights_and_is_refused_where_it_would_be_lost() -> None:
    q, k, v = torch.randn(3, 1, 4, 9, 8)
    at = ALiBi(4).at(arange(9))
    torch.manual_seed(1)
    dropped = posenc.attention(q, k, torch.ones_like(v), at, causal=True, dropout=0.5)
    assert dropped.std() > 0.1, "weights no longer add up to one"
    for wrong in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidArgument, match="at least 0 and below 1"):
            posenc.attention(q, k, v, at, causal=True, dropout=wrong)
    with pytest.raises(InvalidArgument, match=r"dropout=0.5 cannot be combined with return_logsumexp"):
        posenc.attention(q, k, v, at, causal=True, dropout=0.5, return_logsumexp=True)
    with pytest.raises(
        InvalidArgument, match="no backend on cpu supports dropout and function transforms in one call; omit one"
    ):
        torch.func.grad(lambda q: posenc.attention(q, k, v, at, causal=True, dropout=0.5).sum())(q)


@pytest.mark.usefixtures("unchecked")
def test_a_padded_call_with_a_bias_enters_few_files() -> None:
    """Whoever follows a call from top to bottom opens eleven."""
    q, k, v = torch.randn(3, 2, 4, 300, 8)
    real = arange(300) >= torch.tensor([[100], [0]])
    placed, mask = ALiBi(4).at(left_padded(real)), posenc.Mask(causal=True, key_mask=real)
    posenc.attention(q, k, v, placed, mask)
    files = {code.co_filename for code in entered(lambda: posenc.attention(q, k, v, placed, mask))}
    ours = sorted(file for file in files if Path(posenc.__file__).parent in Path(file).parents)
    assert len(ours) <= 11, ours
