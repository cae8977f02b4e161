"""Attention under what torch does to functions: vmap, tracing, second and forward derivatives, training."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import posenc
from posenc.positions import arange
from support.attending import attend
from support.memory import peak_bytes

HEADS, LENGTH = 4, 5
HIDING = ["nothing", "key_mask", "segments"]


def encoding(name: str) -> posenc.Encoding:
    return posenc.encoding(name, width=32, heads=HEADS, head_dim=8, num_positions=64)


def masks(hiding: str, length: int, device: str = "cpu") -> dict[str, Tensor]:
    """What hides keys, as an argument of ``attend``: a key in the middle, or another document."""
    at = arange(length, device=device)
    return {"key_mask": {"key_mask": (at != 2)[None]}, "segments": {"segments": at // 3}}.get(hiding, {})


def qkv(*, requires_grad: bool = False, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(1, HEADS, LENGTH, 8, dtype=dtype)
    k, v = torch.randn(2, 1, 2, LENGTH, 8, dtype=dtype)
    return q.requires_grad_(requires_grad), k.requires_grad_(requires_grad), v.requires_grad_(requires_grad)


def layer(name: str, hiding: str = "nothing", dtype: torch.dtype = torch.float64) -> Callable[..., Tensor]:
    """Causal attention under an encoding, as a function of q, k and v."""
    placed, hidden = encoding(name).at(arange(LENGTH), dtype=dtype), masks(hiding, LENGTH)
    return lambda q, k, v: attend(*placed.rotate(q, k), v, placed, causal=True, **hidden)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch loops where it has no batched kernel
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("which", ["q", "kv", "qkv"])
@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("name", ["nope", "alibi"])
def test_vmap_is_a_loop(name: str, hiding: str, which: str, recorded: bool) -> None:
    """vmap over some of q, k and v equals the calls one by one."""
    call = layer(name, hiding)
    given = [torch.stack([x + i for i in range(3)]) if c in which else x for c, x in zip("qkv", qkv(), strict=True)]
    axes = tuple(0 if c in which else None for c in "qkv")
    with torch.set_grad_enabled(recorded):
        got = torch.func.vmap(call, in_dims=axes)(*given)
    for i in range(3):
        one = (x if axis is None else x[i] for x, axis in zip(given, axes, strict=True))
        torch.testing.assert_close(got[i], call(*one), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("name", ["nope", "rotary", "alibi"])
@pytest.mark.usefixtures("unchecked")
def test_a_trace_gives_what_the_call_gives(name: str, called: bool) -> None:
    """An encoding that rotated before is traced too: nothing that it prepared for eager calls is used."""
    call = layer(name, dtype=torch.float32)
    if called:
        call(*qkv(dtype=torch.float32))
    example, given = (qkv(dtype=torch.float32) for _ in range(2))
    traced = torch.jit.trace(call, example, check_trace=False)  # which compares graphs; values are compared here
    torch.testing.assert_close(traced(*given), call(*given), rtol=0, atol=1e-6)


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("name", ["nope", "rotary", "alibi"])
def test_second_derivatives_are_exact(name: str, hiding: str) -> None:
    """Gradient penalties and Hessian-vector products train through them."""
    assert torch.autograd.gradgradcheck(layer(name, hiding), qkv(requires_grad=True), fast_mode=True)


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("name", ["nope", "rotary", "alibi"])
def test_forward_derivatives_are_exact(name: str, hiding: str) -> None:
    """jvp, dual numbers and the backward pass give the same directional derivative."""
    attending = layer(name, hiding)

    def call(*qkv: Tensor) -> Tensor:
        return attending(*qkv).square().sum()

    given, along = qkv(requires_grad=True), qkv()
    gradients = torch.autograd.grad(call(*given), given)
    want = sum((g * a).sum() for g, a in zip(gradients, along, strict=True))
    _, got = torch.func.jvp(call, tuple(x.detach() for x in given), along)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    with forward_ad.dual_level():
        duals = (forward_ad.make_dual(x.detach(), a) for x, a in zip(given, along, strict=True))
        dual = forward_ad.unpack_dual(call(*duals)).tangent
    torch.testing.assert_close(dual, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "hiding"), [("alibi", "nothing"), ("alibi", "key_mask"), ("nope", "segments")])
def test_training_memory_grows_with_the_length_and_not_with_its_square(name: str, hiding: str) -> None:
    """What is linear in the length, plus a constant, at most doubles with it; a square grows by four."""
    whole = encoding(name)

    def peak(length: int, backend: str) -> int:
        q = torch.randn(1, HEADS, length, 8, requires_grad=True)
        placed, hidden = whole.at(arange(length)), {**masks(hiding, length), "backend": backend}
        return peak_bytes(lambda: torch.autograd.grad(attend(q, q, q, placed, causal=True, **hidden).sum(), q)[0])

    both = name == "alibi" and hiding == "nothing"  # which of them "auto" takes depends on the length
    for backend in ("toeplitz", "low_rank") if both else ("auto",):
        assert peak(2048, backend) <= 2.1 * peak(1024, backend), backend


class Placing(torch.nn.Module):
    """Places, rotates and attends, causally."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.encoding = encoding(name)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
        placed = self.encoding.at(positions)
        return posenc.attention(*placed.rotate(q, k), v, placed, causal=True)


TRACED = (
    *("nope", "rotary", "rotary(phases=float32)", "alibi", "xpos", "t5", "kerple", "fire", "sandwich"),
    "stack(rotary, t5)",
)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")  # torch says that tracing is deprecated, and where lengths become constants
@pytest.mark.parametrize("name", TRACED)
def test_a_traced_module_is_right_at_other_lengths_and_positions(name: str) -> None:
    """torch.jit.trace keeps what was read of the positions it saw, so nothing may be read."""
    module = Placing(name).requires_grad_(False)
    traced = torch.jit.trace(module, (*qkv(dtype=torch.float32), arange(LENGTH)), check_trace=False)
    for length, offset in ((LENGTH, 7), (3, 0), (11, 2)):
        q, k, v = torch.randn(3, 1, HEADS, length, 8)
        for at in (arange(length, offset=offset), 2 * arange(length)):
            torch.testing.assert_close(traced(q, k, v, at), module(q, k, v, at), rtol=0, atol=1e-6)
