"""Every implementation of rotary equals the specification, forward and backward, over shapes, types and layouts.

Budgets come from float64. The rotation of what is really stored in x, by exact tables, is computed in float64;
an implementation computes a·c − b·s in float32 from tables that are half a unit (2^−25) off, with two products
and a sum (2^−24 each), and rounds once to x's type. A fused multiplication only takes roundings away.
"""

import mmap

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc import Rotary
from posenc.kernels import native
from posenc.kernels.rotary import rotate
from posenc.kernels.rotary.by_native import by_native
from posenc.kernels.rotary.eager import blockwise
from posenc.kernels.rotary.fusable import fusable
from posenc.kernels.rotary.operation import Engine, apply
from support.native_kernel import LEVELS, aligned, at_level, cache_of

UNIT = {torch.float64: 2**-53, torch.float32: 2**-24, torch.float16: 2**-11, torch.bfloat16: 2**-8}
"""The largest relative error of one rounding."""


def budget(x: Tensor, want: Tensor, pairing: str, pairs: int) -> Tensor:
    """The error that float32 arithmetic and one rounding to x's type may leave, for every element."""
    wide = x.detach().double()
    a, b = wide[..., : 2 * pairs].chunk(2, -1) if pairing == "half" else (wide[..., ::2], wide[..., 1::2])
    size = a[..., :pairs].abs() + b[..., :pairs].abs()
    size = torch.cat((size, size), -1) if pairing == "half" else size.repeat_interleave(2, -1)
    work = UNIT[torch.float64] if x.dtype == torch.float64 else UNIT[torch.float32]
    phase_error = UNIT[torch.float64] if x.dtype == torch.float64 else 2**-25
    error = torch.zeros_like(wide)
    error[..., : 2 * pairs] = size * (phase_error + 3 * work)
    smallest = torch.finfo(x.dtype).smallest_normal * torch.finfo(x.dtype).eps
    return error * 1.01 + UNIT[x.dtype] * (want.abs() + error) + smallest


def assert_within(got: Tensor, want: Tensor, error: Tensor) -> None:
    over = (got.double() - want).abs() - error
    assert over.max() <= 0, f"{over.max():.1e} over a budget of {error.flatten()[over.argmax()]:.1e}"


LAYOUTS = ("contiguous", "transposed", "fused", "odd offset", "reversed strides", "negated")


@st.composite
def cases(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = tuple(UNIT)) -> dict:
    """Sizes, types, layouts and positions; a tail that does not turn in half of them."""
    rotary_dim = 2 * draw(st.integers(1, 9))
    length, batch = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    offset = draw(st.sampled_from([0, 1000, 2**31 - 60]))
    positions = torch.arange(offset, offset + length)
    if draw(st.booleans()):
        positions = torch.stack([positions + 3 * row for row in range(batch)])
    return {
        "dtype": draw(st.sampled_from(dtypes)),
        "pairing": draw(st.sampled_from(["half", "interleaved"])),
        "rotary_dim": rotary_dim,
        "head_dim": rotary_dim + draw(st.sampled_from([0, 0, 1, 4])),
        "shape": (batch, draw(st.integers(1, 4)), length),
        "kv_heads": draw(st.integers(1, 2)),
        "positions": positions,
        "layout": draw(st.sampled_from(LAYOUTS)),
        "seed": draw(st.integers(0, 10**6)),
    }


def make(shape: tuple[int, ...], dtype: torch.dtype, layout: str, generator: torch.Generator) -> Tensor:
    """Random (B, H, T, D) with the strides and the sign that the layout's name says."""
    b, h, t, d = shape
    if layout == "transposed":
        return torch.randn(b, t, h, d, generator=generator).to(dtype).transpose(1, 2)
    if layout == "fused":
        return torch.randn(b, t, h + 2, d, generator=generator).to(dtype)[:, :, 1 : h + 1].transpose(1, 2)
    if layout == "odd offset":
        return torch.randn(b * h * t * d + 1, generator=generator).to(dtype)[1:].view(shape)
    if layout == "reversed strides":
        return torch.randn(d, t, h, b, generator=generator).to(dtype).permute(3, 2, 1, 0)
    if layout == "negated":  # as the imaginary part of a conjugate is: the sign is in no byte
        return torch._neg_view(torch.randn(shape, generator=generator).to(dtype))
    return torch.randn(shape, generator=generator).to(dtype)


def law(engine: Engine, case: dict) -> None:
    """Forward, backward and double use stay within the budget, and leave their inputs alone."""
    (batch, heads, length), dtype, pairing = case["shape"], case["dtype"], case["pairing"]
    generator = torch.Generator().manual_seed(case["seed"])
    rotary = Rotary(case["head_dim"], pairing=pairing, rotary_dim=case["rotary_dim"])
    exact = rotary.tables(case["positions"], torch.float64)
    tables = exact if dtype == torch.float64 else rotary.tables(case["positions"])
    pairs = case["rotary_dim"] // 2
    qk = [
        make((batch, h, length, case["head_dim"]), dtype, case["layout"], generator)
        for h in (heads, heads * case["kv_heads"])
    ]
    leaves = [x.detach().requires_grad_() for x in qk]
    turned = apply(engine, leaves, *tables, pairing)
    grads = [make(tuple(x.shape), dtype, case["layout"], generator) for x in qk]
    kept = [g.clone() for g in grads]
    back = torch.autograd.grad(turned, leaves, grads, retain_graph=True)
    again = torch.autograd.grad(turned, leaves, grads)
    for x, y, g, g_kept, dx, dx_again in zip(leaves, turned, grads, kept, back, again, strict=True):
        assert y.shape == x.shape
        assert y.dtype == dtype
        assert torch.equal(g, g_kept)
        assert torch.equal(dx, dx_again)
        want = rotate(x.detach().double(), *exact, pairing)
        assert_within(y.detach(), want, budget(x, want, pairing, pairs))
        want = rotate(g.double(), exact[0], -exact[1], pairing)
        assert_within(dx, want, budget(g, want, pairing, pairs))
        assert torch.equal(y[..., 2 * pairs :], x[..., 2 * pairs :])
        assert torch.equal(dx[..., 2 * pairs :], g[..., 2 * pairs :])


def forced(level: str) -> Engine:
    """The native kernel with these instructions."""

    def engine(x, cos, sin, pairing, out):
        with at_level(level):
            return by_native(x, cos, sin, pairing, out)

    return engine


def specification(x, cos, sin, pairing, out):
    return rotate(x, cos, sin, pairing)


ENGINES = {
    "specification": specification,
    "eager": blockwise,
    **{f"native, {level}": forced(level) for level in LEVELS},
}
"""Who must give the same bits: of the native kernel every instruction set."""


NATIVE = pytest.param(by_native, marks=pytest.mark.skipif(bool(native.lacking()), reason=native.lacking()))


@pytest.mark.parametrize("engine", [specification, blockwise, fusable, NATIVE], ids=lambda engine: engine.__name__)
@given(case=cases())
def test_every_engine_keeps_the_budget(engine: Engine, case: dict) -> None:
    law(engine, case)


@pytest.mark.parametrize("engine", [blockwise, fusable])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_no_engine_returns_a_view(engine: Engine, pairing: str) -> None:
    """torch 2.11 gives a compiled function whose result is a view gradients of zero."""
    assert not engine(torch.randn(1, 2, 3, 8), *torch.randn(2, 3, 4), pairing, None)._is_view()


@pytest.mark.usefixtures("native_built")
class TestNative:
    @pytest.mark.parametrize("dtype", UNIT)
    @pytest.mark.parametrize("pairing", ["half", "interleaved"])
    @pytest.mark.parametrize("level", LEVELS)
    def test_past_the_caches_it_is_the_same(self, level: str, pairing: str, dtype: torch.dtype) -> None:
        x = torch.randn(1, 2, 130, 128).to(dtype)
        tables = Rotary(128, pairing=pairing).tables(torch.arange(130), torch.promote_types(dtype, torch.float32))
        y = aligned(x)
        with at_level(level), cache_of(0):
            assert torch.equal(by_native(x, *tables, pairing, y), rotate(x, *tables, pairing))

    @pytest.mark.parametrize("shape", [(3, 2, 6000, 64), (3, 6000, 2, 64)], ids=["heads first", "tokens first"])
    def test_memory_that_no_one_touched_is_filled_alike(self, shape: tuple[int, ...]) -> None:
        """Such memory is asked for in blocks of pages, beyond 8 MB of it."""
        x = torch.randn(shape)
        y = torch.frombuffer(mmap.mmap(-1, x.nbytes + 64), dtype=torch.float32, offset=64).view(shape)
        if shape[1] == 6000:
            x, y = x.transpose(1, 2), y.transpose(1, 2)
        tables = Rotary(64, pairing="half", rotary_dim=48).tables(torch.arange(6000))
        assert by_native(x, *tables, "half", y) is y
        assert torch.equal(y, rotate(x, *tables, "half"))


@pytest.mark.usefixtures("native_built")
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases(), wider=st.sampled_from([1, 40]), at_hand=st.sampled_from(["fresh", "apart", "in place"]))
def test_no_backend_of_the_cpu_changes_a_bit(engine: Engine, case: dict, wider: int, at_hand: str) -> None:
    """So it matters to no number of a study which instructions the machine has that it ran on."""
    (batch, heads, length), dtype, pairing = case["shape"], case["dtype"], case["pairing"]
    rotary = Rotary(wider * case["head_dim"], pairing=pairing, rotary_dim=wider * case["rotary_dim"])
    tables = rotary.tables(case["positions"], torch.promote_types(dtype, torch.float32))
    generator = torch.Generator().manual_seed(case["seed"])
    q, k = (make((batch, heads, length, rotary.head_dim), dtype, case["layout"], generator) for _ in range(2))
    want = [rotate(x, *tables, pairing) for x in (q, k)]
    for x, wanted in zip((q, k), want, strict=True):
        out = {"fresh": None, "apart": torch.empty_like(x), "in place": x}[at_hand]
        assert torch.equal(engine(x, *tables, pairing, out), wanted)


def rounded(numbers: numpy.ndarray, dtype: torch.dtype) -> Tensor:
    """float32 as numpy computed it, rounded to a narrower type by numpy, or by ml_dtypes for bfloat16."""
    kind = numpy.float16 if dtype == torch.float16 else pytest.importorskip("ml_dtypes").bfloat16
    return torch.from_numpy(numbers.astype(kind).view(numpy.int16)).view(dtype)


def keeps_every_pattern(engine: Engine, dtype: torch.dtype, pairing: str) -> None:
    """All 65,536 bit patterns, subnormal and infinite and NaN, give the bits that float32 and one rounding give.

    NaN is NaN: which of its bits are kept depends on the order of a product's factors.
    """
    cos, sin = Rotary(1024, pairing=pairing).tables(torch.arange(64) * 1000)
    sin[0], cos[1], sin[2] = 0.0, 2.0**-100, 2.0**-130  # by one exactly, and to numbers that are subnormal
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    for seed in range(4):
        some = bits[torch.randperm(1 << 16, generator=torch.Generator().manual_seed(seed))]
        x = some.view(dtype).view(1, 1, 64, 1024)
        a, b = x.chunk(2, -1) if pairing == "half" else (x[..., ::2], x[..., 1::2])
        with numpy.errstate(all="ignore"):
            a, b, c, s = (t.contiguous().float().numpy() for t in (a, b, cos, sin))
            turned = [rounded(y, dtype) for y in (a * c - b * s, b * c + a * s)]
        want = torch.cat(turned, -1) if pairing == "half" else torch.stack(turned, -1).flatten(-2)
        got = engine(x, cos, sin, pairing, None)
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.nan_to_num(0).view(torch.int16), want.nan_to_num(0).view(torch.int16))


@pytest.mark.usefixtures("native_built")
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_every_pattern_of_16_bits_is_turned_alike(engine: Engine, dtype: torch.dtype, pairing: str) -> None:
    keeps_every_pattern(engine, dtype, pairing)


def test_a_kernel_that_flushes_subnormals_is_noticed() -> None:
    """As a processor's own conversion to bfloat16 does."""

    def flushes(x, cos, sin, pairing, out):
        y = specification(x, cos, sin, pairing, out)
        return torch.where(y.abs() < torch.finfo(y.dtype).smallest_normal, 0.0, y)

    with pytest.raises(AssertionError):
        keeps_every_pattern(flushes, torch.bfloat16, "half")


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_an_engine_that_is_wrong_is_noticed(pairing: str) -> None:
    def keeps_direction(x, cos, sin, pairing, out):
        return blockwise(x, cos, sin.abs(), pairing, out)

    def rounds_twice(x, cos, sin, pairing, out):
        return blockwise(x, cos.to(x.dtype), sin.to(x.dtype), pairing, out)

    case = {
        "dtype": torch.bfloat16,
        "pairing": pairing,
        "rotary_dim": 16,
        "head_dim": 16,
        "shape": (2, 3, 8),
        "kv_heads": 1,
        "positions": torch.arange(8),
        "layout": "contiguous",
        "seed": 0,
    }
    for wrong in (keeps_direction, rounds_twice):
        with pytest.raises(AssertionError, match="over a budget"):
            law(wrong, case)
