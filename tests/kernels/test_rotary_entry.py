"""The one entry to rotation: aliasing of ``out``, frozen keys, odd offsets, mapped positions, traced models."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import posenc
from posenc import Rotary, positions
from posenc.errors import InvalidArgument
from support.processes import python

PAIRINGS = ("half", "interleaved")
BACKENDS = ("torch", "eager", "native")


def placed(backend: str = "auto", pairing: str = "half", length: int = 3):
    return Rotary(8, pairing=pairing, backend=backend).at(positions.arange(length))


Laid = Callable[[], tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]]
"""The memory of all, queries, keys, and where they go."""


def exchanged() -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
    both = torch.randn(1, 4, 3, 8)
    return both, both[:, :2], both[:, 2:], (both[:, 2:], both[:, :2])


def shifted_by_one() -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
    cache, k = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 3, 8)
    return cache, cache[:, :, :3], k, (cache[:, :, 1:], k)


def slices_of_one_projection() -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
    fused = torch.randn(1, 3, 6, 8).transpose(1, 2)
    q, k = fused[:, :2], fused[:, 2:4]
    return fused, q, k, (q, k)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.usefixtures("native_built")
class TestAliases:
    """``out`` may overlap q and k in any way, but not itself."""

    @pytest.mark.parametrize("laid", [exchanged, shifted_by_one, slices_of_one_projection])
    def test_overlap_changes_nothing(self, laid: Laid, backend: str, pairing: str, recorded: bool) -> None:
        memory, q, k, out = laid()
        want, before = placed(backend, pairing).rotate(q, k), memory.clone()
        with torch.set_grad_enabled(recorded):
            got = placed(backend, pairing).rotate(q, k, out=out)
        torch.testing.assert_close(got, want, rtol=0, atol=8 * 2**-23)
        assert got[0] is out[0]
        assert torch.equal(memory[:, 4:], before[:, 4:])

    def test_one_memory_for_both_is_refused(self, backend: str, pairing: str, recorded: bool) -> None:
        x = torch.randn(1, 2, 3, 8)
        both = torch.empty(1, 3, 3, 8)
        with torch.set_grad_enabled(recorded):
            for out in ((x, x), (both[:, :2], both[:, 1:])):
                with pytest.raises(InvalidArgument, match="out contains two tensors that share memory"):
                    placed(backend, pairing).rotate(x, x, out=out)

    def test_another_kind_is_refused(self, backend: str, pairing: str, recorded: bool) -> None:
        x = torch.randn(1, 2, 3, 8)
        with torch.set_grad_enabled(recorded):
            for out in (torch.empty(2, 2, 3, 8), torch.empty(1, 2, 3, 8, dtype=torch.float64)):
                with pytest.raises(InvalidArgument, match="pass a tensor like the input"):
                    placed(backend, pairing).rotate(x, x, out=(out, torch.empty_like(x)))


@pytest.mark.parametrize("length", [4, 4000])
@pytest.mark.usefixtures("native_built")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_frozen_key_stays_frozen(backend: str, length: int) -> None:
    q, k = torch.randn(2, 1, 2, length, 8)
    turned_q, turned_k = placed(backend, length=length).rotate(q.requires_grad_(), k)
    assert turned_q.requires_grad
    assert not turned_k.requires_grad


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("shape", [(5, 1, 2, 3, 8), (5, 2, 40, 3, 128)])
def test_positions_may_be_mapped(pairing: str, shape: tuple[int, ...]) -> None:
    """Both ways, the short one and that of blocks."""
    rotary = Rotary(shape[-1], pairing=pairing)
    at, q = torch.randint(99, (5, 3)), torch.randn(shape)
    got = torch.func.vmap(lambda p, q: rotary.at(p).rotate(q, 2 * q)[0])(at, q)
    want = torch.stack([rotary.at(p).rotate(x, 2 * x)[0] for p, x in zip(at, q, strict=True)])
    torch.testing.assert_close(got, want, rtol=0, atol=8 * 2**-23)


def test_fake_tensors_leave_nothing_behind() -> None:
    """A step that is kept for decoding is none of fake tensors."""
    placed = Rotary(8, pairing="half").at(positions.arange(3), positions.arange(3))
    with FakeTensorMode(allow_non_fake_inputs=True):
        placed.rotate(*torch.randn(2, 1, 2, 3, 8))
    assert placed.rotate(*torch.randn(2, 1, 2, 3, 8))[0].sum().item() is not None


def test_a_symbolic_trace_takes_other_lengths() -> None:
    rotary = Rotary(8, pairing="half")

    def turn(q: Tensor, at: Tensor) -> Tensor:
        return rotary.at(at).rotate(q, q)[0]

    example, other = ((torch.randn(1, 2, n, 8), positions.arange(n, offset=n)) for n in (4, 9))
    traced = make_fx(turn, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*example)
    torch.testing.assert_close(traced(*other), turn(*other), rtol=0, atol=8 * 2**-23)


@pytest.mark.usefixtures("unchecked")
def test_symbolic_trace_takes_placing_as_one_step() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary = Rotary(8, pairing="half")

        def forward(self, q, k, at):
            q, k = self.rotary.at(at).rotate(q, k)
            return q + k

    model, q = Model(), torch.randn(1, 2, 4, 8)
    assert torch.equal(torch.fx.symbolic_trace(model)(q, q, positions.arange(4)), model(q, q, positions.arange(4)))


COMPILED = """
import sys
import torch
import posenc
from posenc import Rotary, positions
at = positions.arange(5)
for dtype in (torch.float32, torch.bfloat16):
    rotary = Rotary(16, pairing="interleaved")
    for backend in sys.argv[1:]:
        turn = torch.compile(lambda q, k: rotary.at(at).rotate(q, k)[0], fullgraph=True, backend=backend)
        for first in (0, 1):
            x = torch.randn(361).to(dtype)[first:][:360].view(1, 4, 5, 18)[..., :16]
            torch.testing.assert_close(turn(x, x * 1), rotary.at(at).rotate(x, x * 1)[0], rtol=2**-7, atol=1e-6)
shared = torch.randn(1, 2, 5, 16, requires_grad=True)
both = torch.compile(lambda x: sum(rotary.at(at).rotate(x, x)), fullgraph=True, backend="aot_eager")
torch.autograd.grad(both(shared).sum(), shared)
print("right")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_models_take_odd_offsets_and_one_tensor_for_both(backend: str) -> None:
    """In an interpreter of its own: compilers cannot trace the checks that tests wrap around the library."""
    assert python("-c", COMPILED, backend) == "right\n"


def test_a_step_is_kept_for_decoding_and_none_is_made_while_gradients_are_recorded(native_built: None) -> None:
    """Making one costs as much as a small rotation, and what is recorded never takes it."""
    here = placed("native")
    q = torch.randn(1, 2, 3, 8)
    here.rotate(q.requires_grad_(), q)
    assert here._step is None
    with torch.no_grad():
        here.rotate(q, q)
    assert here._step is not None


@pytest.mark.parametrize(
    "encoding", ["rotary-learned(groups=2, heads=4)", "fope(num_positions=16, groups=2, heads=4)"]
)
def test_at_makes_the_tables_for_all_layers_but_none_of_a_cache(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys in a cache are rotated already; those that are not are placed by themselves."""
    made = posenc.encoding(f"{encoding[:-1]}, pairing='half')", head_dim=8, heads=4)
    lengths, tables = [], made.tables
    monkeypatch.setattr(made, "tables", lambda at, *rest: lengths.append(at.shape[-1]) or tables(at, *rest))
    new, keys = made.at(positions.arange(3), positions.arange(5)), made.at(positions.arange(5))
    assert lengths == [3, 5]
    for _ in range(4):
        rotated_k = keys.rotate(torch.randn(1, 4, 5, 8), torch.ones(1, 2, 5, 8))[1]
        new.rotate(torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8))
    assert lengths == [3, 5]
    assert torch.equal(new.rotate(torch.randn(1, 4, 3, 8), torch.ones(1, 2, 5, 8))[1], rotated_k)
