"""Softcap, sinks and the logsumexp: transformers' own attention, and the specification under every combination."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma_2
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss

import posenc
from posenc import Mask, attention, explain, merge, scores
from posenc.attend.offers import WAYS
from posenc.encodings.alibi import LinearBias
from posenc.errors import InvalidArgument
from posenc.positions import arange
from support.attending import same_gradients

H, K, D = 4, 2, 8


def heads(T: int = 9, S: int = 9, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(2, H, T, D), (2, K, S, D), (2, K, S, D)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def hidden(T: int, S: int, window: int | None = None) -> Tensor:
    ahead = torch.arange(S) - torch.arange(S - T, S)[:, None]
    seen = (ahead <= 0) & (ahead > -(window or S))
    return torch.zeros(1, 1, T, S, dtype=torch.float64).masked_fill(~seen, -math.inf)


MODELS: dict[str, tuple[Any, dict[str, Any], float, float]] = {
    # Gemma 2 takes the softmax in float32: weights of at most 1, rounded a few times, of values up to 4.
    "gemma 2": (gemma_2, {"softcap": 1.5}, 4 * 4 * 2.0**-24, 4 * 4 * 4 * 2.0**-24),
    "gpt-oss": (gpt_oss, {"sinks": torch.tensor([1.5, -0.25, -2.0, 0.5]).double().requires_grad_()}, 1e-12, 1e-10),
}
"""The attention of transformers, its own settings, and the tolerances of outputs and gradients."""


@pytest.mark.parametrize(("T", "window"), [(9, None), (9, 3), (1, None), (300, 7)])
@pytest.mark.parametrize("model", MODELS)
def test_attention_of_models_with_gradients(model: str, T: int, window: int | None) -> None:
    theirs, own, outputs, gradients = MODELS[model]
    leaves = [x.requires_grad_() for x in heads(T, max(T, 9))]
    S = leaves[1].shape[2]
    module = SimpleNamespace(num_key_value_groups=H // K, training=False, **own)
    want, _ = theirs(module, *leaves, hidden(T, S, window), scaling=0.7, **own)
    placed = posenc.NoPE().at(arange(T, offset=S - T), arange(S))
    got = attention(*leaves, placed, causal=True, window=window, scale=0.7, **own)
    torch.testing.assert_close(got, want.transpose(1, 2), rtol=0, atol=outputs)
    same_gradients(got, want.transpose(1, 2), [*leaves, *filter(torch.is_tensor, own.values())], gradients)


ENCODINGS: dict[str, Any] = {
    "nope": posenc.NoPE(),
    "alibi": posenc.ALiBi(H),
    "t5": posenc.T5(H, std=1.0),
    "kerple": posenc.encoding("kerple", heads=H),
    "shaw": posenc.encoding("shaw", heads=H, head_dim=D),
    "cope": posenc.encoding("cope", heads=H, head_dim=D),
    "ssmax": posenc.encoding("ssmax", heads=H),
    "xpos": posenc.XPos(D, pairing="half"),
    "stack": posenc.Stack(posenc.Rotary(D, pairing="half"), posenc.ALiBi(H)),
}
for one in ENCODINGS.values():
    one.double()

MASKS = {
    "causal": lambda T, S: Mask(causal=True),
    "both ways": lambda T, S: Mask(),
    "window": lambda T, S: Mask(causal=True, window=4),
    "documents": lambda T, S: Mask(
        causal=True, q_segments=(arange(S) // max(S // 2, 1))[S - T :], k_segments=arange(S) // max(S // 2, 1)
    ),
    "left padding": lambda T, S: Mask(
        causal=True, key_mask=(arange(S) >= torch.tensor([[S // 3], [0]])) | (arange(S) == S - 1)
    ),
    "chunks": lambda T, S: Mask(causal=True, chunk=3),
    "dense": lambda T, S: Mask(dense=torch.rand(2, H, T, S, generator=torch.Generator().manual_seed(3)) < 0.6),
}


@given(
    name=st.sampled_from(sorted(ENCODINGS)),
    kind=st.sampled_from(sorted(MASKS)),
    lengths=st.sampled_from([(1, 1), (9, 9), (1, 9), (4, 9), (300, 300)]),
    softcap=st.none() | st.floats(0.5, 4),
    sinks=st.booleans(),
    training=st.booleans(),
    way=st.sampled_from(["auto", "blocks", "operators"]),
)
def test_combinations_are_scores(
    name: str, kind: str, lengths: tuple[int, int], softcap: float | None, sinks: bool, training: bool, way: Any
) -> None:
    """In float64: outputs, the logsumexp, and gradients of queries, keys, values, sinks and parameters."""
    (T, S), encoding = lengths, ENCODINGS[name]
    mask = MASKS[kind](T, S)
    if encoding.causal and not mask.causal:
        return
    leaves = [x.requires_grad_(training) for x in (*heads(T, S), torch.linspace(-1, 2, H, dtype=torch.float64))]
    q, k, v, logits = leaves
    with torch.set_grad_enabled(training):
        placed = encoding.at(arange(T, offset=S - T), arange(S), dtype=torch.float64)[0]
        q, k = placed.rotate(q, k)
        asked: dict[str, Any] = {"softcap": softcap} | ({"sinks": logits} if sinks else {"return_logsumexp": True})
        try:
            taken = explain(q, k, v, placed, mask, backend=way, **asked)
        except InvalidArgument:
            assert way == "blocks"
            return
        assert {"softcap"} <= WAYS[taken.backend].has or softcap is None
        got = attention(q, k, v, placed, mask, backend=way, **asked)
        dense = scores(q, k, placed, mask, softcap=softcap, sinks=logits if sinks else None)
        dead = (dense == -math.inf).all(-1, keepdim=True)
        weights = dense.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
        want = weights[..., :S] @ v.repeat_interleave(H // K, dim=1)
        outputs, wanted = [got if sinks else got[0]], [want]
        if not sinks:
            outputs.append(got[1])
            lse = dense.masked_fill(dead, 0.0).logsumexp(-1)
            wanted.append(lse.masked_fill(dead[..., 0], -math.inf))
        torch.testing.assert_close(outputs, wanted, rtol=0, atol=1e-11)
    if not training:
        return
    parameters = [*leaves, *encoding.parameters()]
    grads = []
    for each in (outputs, wanted):
        finite = [y.masked_fill(y == -math.inf, 0.0) for y in each]
        rows = [torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y) for y in finite]
        total = torch.stack([(y * row).sum() for y, row in zip(finite, rows, strict=True)]).sum()
        grads.append(
            torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True, retain_graph=True)
        )
    torch.testing.assert_close(*grads, rtol=0, atol=1e-9)


@pytest.mark.parametrize("sinks", [None, torch.tensor([0.5, -1.0, 3.0, 0.0], dtype=torch.float64)])
def test_parts_take_a_sink_once(sinks: Tensor | None) -> None:
    q, k, v = heads()
    placed, mask = posenc.NoPE().at(arange(9)), Mask(causal=True)
    want = attention(q, k, v, placed, mask, sinks=sinks)
    parts = []
    for keys in (arange(4), arange(5, offset=4)):
        part = Mask(causal=True, q_order=arange(9), k_order=keys)
        here = posenc.NoPE().at(arange(9), keys)
        parts.append(attention(q, k[:, :, keys], v[:, :, keys], here, part, return_logsumexp=True))
    torch.testing.assert_close(merge(parts, sinks=sinks)[0], want, rtol=0, atol=1e-12)
    if sinks is not None:
        with pytest.raises(InvalidArgument, match=r"must include sinks only once.*posenc.merge\(parts, sinks=…\)"):
            attention(q, k, v, placed, mask, sinks=sinks, return_logsumexp=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_gradients_through_the_logsumexp_keep_their_digits(dtype: torch.dtype) -> None:
    """By torch's kernels in 16 bits, against float64, no further off than the same without a logsumexp is."""
    sinks = torch.tensor([2.0, 0.0, 1.0, -1.0], dtype=torch.float64)
    placed = posenc.NoPE().at(arange(40))
    errors = []
    for asked in ({}, {"sinks": sinks}):
        grads = []
        for kind in (dtype, torch.float64):
            leaves = [x.to(dtype).to(kind).requires_grad_() for x in heads(40, 40)]
            given_ = {name: x.to(kind) for name, x in asked.items()}
            y = attention(*leaves, placed, causal=True, **given_)
            weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)
            grads.append(torch.autograd.grad((y * weight.to(kind)).sum(), leaves))
        errors.append(max((a.double() - b).abs().max().item() for a, b in zip(*grads, strict=True)))
    assert explain(*leaves, placed, causal=True, **given_).backend == "sdpa"
    assert errors[1] <= 2 * errors[0]


def test_a_logsumexp_far_from_all_keys_keeps_the_gradient() -> None:
    """ALiBi a million tokens away has a logsumexp of thousands, whose rounding no weight may take."""
    narrow = [x.requires_grad_() for x in heads(3, 9, torch.float32)]
    wide = [x.detach().double().requires_grad_() for x in narrow]
    at, grads = (arange(3, offset=1_000_000), arange(9)), []
    for leaves in (narrow, wide):
        alibi = posenc.ALiBi(H).to(leaves[0].dtype).at(*at, dtype=leaves[0].dtype)
        y, lse = attention(*leaves, alibi, return_logsumexp=True)
        grads.append(torch.autograd.grad(y.sum() + lse.sum() * 0.5, leaves))
    torch.testing.assert_close(*grads, rtol=0, atol=2e-5, check_dtype=False)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dropout": None}, "dropout=None must be the share of weights to drop: at least 0 and below 1"),
    ({"dropout": "a"}, "dropout='a' must be the share of weights to drop: at least 0 and below 1"),
    ({"softcap": 0.0}, "softcap=0.0 must be a finite number above 0"),
    (
        {"sinks": torch.zeros(3)},
        r"sinks is torch.float32 \(3,\) on cpu; expected a tensor with one float for each of the 4 heads of q",
    ),
    ({"sinks": torch.zeros(4, dtype=torch.long)}, "sinks is torch.int64"),
    ({"sinks": [0.0] * 4}, r"sinks is \[0.0, 0.0, 0.0, 0.0\]; expected a tensor with one float for each of the 4"),
    (
        {"sinks": torch.zeros(4), "dropout": 0.1},
        "dropout=0.1 cannot be combined with return_logsumexp, sinks or remapped positions, because",
    ),
    ({"softcap": 1.0, "dropout": 0.1}, "no backend on cpu supports dropout and softcap in one call"),
    ({"softcap": 1.0, "backend": "sdpa"}, "backend='sdpa' does not support this call: it does not support softcap"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", [attention, explain])
@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_what_does_not_go_together_is_refused(asked: dict[str, Any], message: str, call: Any) -> None:
    for encoding in (posenc.NoPE(), posenc.ALiBi(H)):
        with pytest.raises(InvalidArgument, match=message):
            call(*heads(dtype=torch.float32), encoding.at(arange(9)), causal=True, **asked)


@pytest.mark.parametrize("encoding", [posenc.NoPE(), posenc.ALiBi(H)], ids=repr)
def test_autocast_rounds_the_queries_and_keys_of_scores_and_nothing_else(encoding: posenc.Encoding) -> None:
    placed, (q, k, _) = encoding.at(arange(9)), heads(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got = scores(q, k, placed, causal=True)
    torch.testing.assert_close(got, scores(q.bfloat16(), k.bfloat16(), placed, causal=True), rtol=0, atol=0)


def test_what_cuda_takes() -> None:
    """Fake tensors of a GPU: FlexAttention where it serves, else plain operators."""
    with FakeTensorMode():
        q, step = (torch.empty(1, 4, n, 64, device="cuda", dtype=torch.bfloat16) for n in (512, 1))
        at, last = (torch.empty(n, dtype=torch.int64, device="cuda") for n in (512, 1))
        sinks = torch.empty(4, device="cuda")
        for asked in ({"softcap": 2.0}, {"sinks": sinks}, {"return_logsumexp": True}):
            assert explain(q, q, q, posenc.Placed(at, at), causal=True, **asked).backend == "flex"
            assert explain(step, q, q, posenc.Placed(last, at), causal=True, **asked).backend == "operators"
        for times, trained, backend in ((1, False, "flex"), (1, True, "dense"), (8, True, "blocks")):
            more, order = q.repeat(1, 1, times, 1), at.repeat(times)
            bias = LinearBias(torch.empty(4, device="cuda").requires_grad_(trained), order, order)
            way = explain(
                more, more, more, posenc.Placed(order, order, bias=bias), Mask(causal=True, q_order=order)
            )
            assert way.backend == backend
        assert ("flex", "FlexAttention has no dropout and no gradients of a bias") in way.declined
