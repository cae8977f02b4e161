"""Windows and causality cost what is visible: what they hide is never multiplied, forward or backward."""

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Mask, attention, explain, scores
from posenc.attend.blocks import WINDOW_ROWS
from posenc.laws.effects import defined
from posenc.positions import arange
from support.attending import same_gradients
from support.operators import Operators

HEADS, D, T = 2, 8, 1024
BIASES = (
    "nope",
    "alibi",
    "t5",
    "shaw",
    "kerple",
    "fire",
    "sandwich",
    "cope",
    "deberta",
    "fox",
    "inkling",
)


def placed(name: str, S: int, T: int, dtype: torch.dtype) -> tuple[posenc.Placed, list[Tensor]]:
    """An encoding at the last T of S positions, with what it reads; and what gradients flow to."""
    encoding = posenc.encoding(name, width=8, heads=HEADS, head_dim=D, num_positions=S).to(dtype)
    x, at = torch.randn(1, S, 8, dtype=dtype), arange(S)
    here = encoding.at(at[S - T :], at, dtype=dtype)
    state = encoding.at(at, dtype=dtype).with_content(x)[1]
    return here.with_content(x[:, S - T :])[0].with_state(state), list(encoding.parameters())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", [name for name in BIASES if name != "cope"])  # which plain operators compute
def test_cost_is_what_is_visible(name: str, training: bool) -> None:
    """Of T queries with a window of W each block of R rows meets R + W − 1 keys: with R = W twice what is seen."""
    window = 128
    here, _ = placed(name, T, T, torch.float32)
    q, k, v = (x.requires_grad_(training) for x in torch.randn(3, 1, HEADS, T, D))
    with Operators() as counted, torch.set_grad_enabled(training):
        attention(q, k, v, here, causal=True, window=window)
    rows = 256 if training else 128
    assert 0 < counted.scores <= HEADS * T * (rows + window)
    if here.causal:
        return
    with Operators() as two_sided, torch.set_grad_enabled(training):
        attention(q, k, v, here, window=window)
    assert 0 < two_sided.scores <= HEADS * T * (rows + 2 * window)


@pytest.mark.parametrize("name", ["nope", "alibi"])
def test_the_backward_pass_costs_what_is_visible_too(name: str) -> None:
    here, _ = placed(name, T, T, torch.float32)
    q, k, v = (x.requires_grad_() for x in torch.randn(3, 1, HEADS, T, D))
    y = attention(q, k, v, here, causal=True, window=128)
    with Operators() as counted:
        y.sum().backward()
    assert 0 < counted.scores <= HEADS * T * (256 + 128)


SEEN = [(300, True, 7), (300, False, 70), (20, True, 140), (1, True, 9)]
"""Queries, causality and windows; half of them are padded, the other half for the next bias."""
SPANS = [(name, *SEEN[j], (i + j) % 2 == 0) for i, name in enumerate(BIASES) for j in range(len(SEEN))]


@pytest.mark.parametrize(("name", "queries", "causal", "window", "padded"), SPANS)
def test_windows_are_those_of_scores(name: str, queries: int, causal: bool, window: int, padded: bool) -> None:
    """Forward, and every gradient, along lines and block by block."""
    S = 300
    here, parameters = placed(name, S, queries, torch.float64)
    causal = causal or here.causal
    shapes = (2, HEADS, queries, D), (2, 1, S, D), (2, 1, S, D)
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    keys = torch.arange(S) >= torch.tensor([[4], [0]]) if padded else None
    mask = Mask(causal, window=window, key_mask=keys)
    want, _ = defined(*leaves, here, mask)
    y = attention(*leaves, here, mask)
    torch.testing.assert_close(y, want, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(attention(*leaves, here, mask), want, rtol=0, atol=1e-12)
    same_gradients(y, want, [*leaves, *parameters], 1e-10, 1e-10)


def test_a_window_along_a_line_stays_on_it() -> None:
    here, _ = placed("t5", 500, 500, torch.float32)
    q = torch.randn(1, HEADS, 500, D)
    assert explain(q, q, q, here, causal=True, window=9).backend == "toeplitz"


def test_a_step_of_decoding_pads_no_cache() -> None:
    """Values narrower than keys (MLA) stay so, where that costs a table of less than their own size."""
    q, k, v = torch.randn(1, 4, 1, 24), torch.randn(1, 4, 512, 24), torch.randn(1, 4, 512, 16)
    here = posenc.NoPE().at(arange(512)[-1:], arange(512))
    with Operators() as operators:
        y = attention(q, k, v, here, causal=True)
    assert max(operators.sizes) < v.numel()
    torch.testing.assert_close(y, (q @ k.mT / 24**0.5).softmax(-1) @ v)


def test_gradients_of_keys_are_added_up_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 the error of dk and dv does not grow with the count of blocks."""
    monkeypatch.setattr("posenc.attend.blocks.TRAINING_ROWS", 32)
    q, k, v, weight = torch.randn(4, 1, 1, 1024, 16).bfloat16()
    here, results = posenc.Kerple(1).requires_grad_(False).at(arange(1024)), []
    for dtype in (torch.float64, torch.bfloat16):
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        y = attention(*leaves, here, causal=True, backend="blocks")
        results.append(torch.autograd.grad((y * weight).sum(), leaves[1:]))
    for want, got in zip(*results, strict=True):
        # 0.0035 from one block to 32, which added up in bfloat16 have 0.0064.
        assert (got.double() - want).square().mean().sqrt() < 4.3e-3 * want.square().mean().sqrt()


@pytest.mark.parametrize("name", ["nope", "alibi", "t5"])
@pytest.mark.parametrize(("S", "window"), [(333, 64), (333, 65), (333, 1), (400, 150), (200, 128)])
def test_blocks_of_a_window_are_one_call(name: str, S: int, window: int) -> None:
    """All blocks that see keys under the same mask, whatever lies in memory beside heads that share keys."""
    encoding = posenc.encoding(name, width=32, heads=4, head_dim=8)
    here, mask, length = encoding.at(arange(S)[-200:], arange(S)), Mask(causal=True, window=window), 200
    q, k, v = torch.randn(2, length, 4, 8).transpose(1, 2), *torch.randn(2, 2, S, 2, 8).transpose(2, 3)
    wanted = scores(q, k, here, mask).softmax(-1) @ v.repeat_interleave(2, 1)
    with torch.no_grad(), Operators() as operators:
        y = attention(q, k, v, here, mask)
    shapes = [one.args[0][1:3] for one in operators.attention]
    torch.testing.assert_close(y, wanted, rtol=0, atol=2e-6)
    behind = -(-max(0, window - 1 - (S - length)) // WINDOW_ROWS)  # blocks that see less than a window
    alike = length // WINDOW_ROWS - behind
    assert shapes.count((alike, WINDOW_ROWS)) == (4 if alike > 1 else 0)
    rest = behind + 1 if alike > 1 else -(-length // 128)
    grouped = torch.__version__ >= "2.13"  # the fused kernel of torch 2.8 for the CPU does not share key heads
    assert len(shapes) == (4 if alike > 1 else 0) + rest * grouped
