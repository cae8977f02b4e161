"""``Rotary(backend=…)``: who computes, why, and that every one of them behaves like the specification."""

import pytest
import torch
from torch import Tensor

from posenc import Rotary, positions
from posenc.errors import BackendUnavailable, InvalidArgument
from posenc.kernels.backend import by_name, explained
from posenc.kernels.rotary import Tables, rotate_both

PAIRINGS = ("half", "interleaved")
ENGINES = ("eager", "native")


def qk(dtype: torch.dtype = torch.float32, length: int = 6, channels: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(2, length, 6, channels, generator=generator).to(dtype).transpose(1, 2)
    return draw[:, :4], draw[:, 4:]


def close(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> None:
    """Equal to what two float32 roundings of values below 8 may differ by, or one of a narrower type."""
    torch.testing.assert_close(got, want, rtol=torch.finfo(want[0].dtype).eps, atol=8 * 2**-23)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.usefixtures("native_built")
def test_every_impl_through_the_door(backend: str, pairing: str) -> None:
    rotary = Rotary(16, pairing=pairing, rotary_dim=12, backend=backend)
    plain = Rotary(16, pairing=pairing, rotary_dim=12, backend="torch")
    q, k = qk()
    for at in (positions.arange(6), torch.stack((positions.arange(6), positions.arange(6, offset=50)))):
        close(rotary.at(at).rotate(q, k), plain.at(at).rotate(q, k))
        with_cache = rotary.at(at[..., -2:], at).rotate(q[:, :, -2:], k)
        close(with_cache, plain.at(at[..., -2:], at).rotate(q[:, :, -2:], k))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("backend", ["torch", *ENGINES])
@pytest.mark.usefixtures("native_built")
class TestOut:
    """``out=``: in place or into other memory, with autograd told of it."""

    def test_in_place(self, backend: str, pairing: str) -> None:
        placed = Rotary(16, pairing=pairing, rotary_dim=12, backend=backend).at(positions.arange(6))
        leaf = torch.randn(2, 6, 4, 16, requires_grad=True)
        want = placed.rotate(leaf.transpose(1, 2), leaf.transpose(1, 2))
        x = (leaf * 1).transpose(1, 2)
        other = (leaf * 1).transpose(1, 2)
        version, address = x._version, x.data_ptr()
        q, k = placed.rotate(x, other, out=(x, other))
        assert q is x
        assert x.data_ptr() == address
        assert x._version > version
        close((q, k), want)
        (grad,) = torch.autograd.grad((q**2).sum(), leaf)
        torch.testing.assert_close(grad, 2 * leaf)  # a rotation keeps norms

    def test_what_was_saved_before_is_missed(self, backend: str, pairing: str) -> None:
        placed = Rotary(16, pairing=pairing, backend=backend).at(positions.arange(6))
        x = torch.randn(2, 4, 6, 16, requires_grad=True) * 1
        sine = x.sin()  # keeps x for its backward
        placed.rotate(x, torch.randn_like(x), out=(x, torch.empty_like(x)))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            sine.sum().backward()

    def test_into_a_slot_of_a_cache(self, backend: str, pairing: str) -> None:
        placed = Rotary(16, pairing=pairing, backend=backend).at(positions.arange(6))
        q, k = (x.detach().requires_grad_() for x in qk())
        cache = torch.zeros(2, 2, 20, 16)
        placed.rotate(q, k, out=(torch.empty_like(q), cache[:, :, 3:9]))
        close((cache[:, :, 3:9],), placed.rotate(q, k)[1:])
        assert not cache[:, :, :3].any()
        (grad,) = torch.autograd.grad(cache.square().sum(), k)
        torch.testing.assert_close(grad, 2 * k)


@pytest.mark.parametrize("backend", ["torch", *ENGINES])
@pytest.mark.usefixtures("native_built")
def test_out_that_holds_one_number_in_several_places_is_refused(backend: str) -> None:
    """Rotated in place, memory that heads share would turn once for each of them."""
    placed = Rotary(16, pairing="half", backend=backend).at(positions.arange(6))
    q, k = torch.randn(2, 1, 6, 16).expand(-1, 4, -1, -1), torch.randn(2, 2, 6, 16)
    before = q.clone()
    with pytest.raises(
        InvalidArgument, match="several of its elements share memory; pass a tensor without overlap"
    ):
        placed.rotate(q, k, out=(q, k))
    assert torch.equal(q, before)
    # Without tokens, no memory is shared, although even a clone keeps the stride of 0.
    placed.encoding.at(positions.arange(0)).rotate(q[:, :, :0], q[:, :, :0], out=(None, q[:, :, :0].clone()))


@pytest.mark.parametrize("backend", ["auto", "torch", "eager", "native"])
@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:Converting a tensor")
@pytest.mark.usefixtures("native_built")
def test_a_traced_model_computes_anew(backend: str) -> None:
    """torch.jit.trace, by which older exporters read models, must find operators and not one call's numbers."""
    rotary, (q, k) = Rotary(16, pairing="half", backend=backend), qk()
    with torch.no_grad():
        traced = torch.jit.trace(lambda q, k, at: rotary.at(at).rotate(q, k), (q, k, positions.arange(6)))
        given = 2 * q, k + 1, positions.arange(6, offset=3)
        close(traced(*given), rotary.at(given[2]).rotate(*given[:2]))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_derivatives_of_every_order_and_kind(pairing: str) -> None:
    placed = Rotary(6, pairing=pairing, rotary_dim=4).at(positions.arange(3), dtype=torch.float64)
    q = torch.randn(1, 2, 3, 6, dtype=torch.float64, requires_grad=True)
    k = torch.randn(1, 1, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(placed.rotate, (q, k), check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(placed.rotate, (q, k), check_fwd_over_rev=True, fast_mode=True)
    mapped = torch.func.vmap(placed.rotate, in_dims=(0, None))(torch.stack((q, 2 * q)), k)
    torch.testing.assert_close(mapped[0][1], 2 * placed.rotate(q, k)[0])


class TestChoose:
    def test_auto_says_why(self) -> None:
        assert Rotary(16, pairing="half", backend="torch").explain() == "torch: backend='torch' was requested"
        assert by_name("auto", "mps") == "torch"
        assert explained("auto", "cuda") == (
            "torch: plain operators, which also run on cuda; torch.compile fuses them"
        )

    @pytest.mark.usefixtures("native_built")
    def test_what_cannot_be_served_is_an_error(self) -> None:
        with pytest.raises(BackendUnavailable, match="backend='native' runs on cpu, but the tensors are on mps"):
            by_name("native", "mps")

    def test_tables_with_gradients_are_for_the_specification(self) -> None:
        q, k = qk()
        made = Tables(*torch.ones(2, 6, 8, requires_grad=True))
        assert torch.autograd.grad(rotate_both(q, k, made, made, "half")[0].sum(), made.cos)[0].any()
        with pytest.raises(InvalidArgument, match="which backend='eager' does not compute; use backend='torch'"):
            rotate_both(q, k, made, made, "half", "eager")
