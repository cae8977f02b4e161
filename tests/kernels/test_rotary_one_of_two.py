"""Rotation of one of queries and keys, and of other layouts."""

import pytest
import torch
from torch import Tensor

from posenc import Rotary, layouts, positions
from posenc.errors import InvalidArgument
from posenc.kernels.rotary import rotate
from support.native_kernel import LEVELS, at_level

PAIRINGS = ("half", "interleaved")
BACKENDS = ("torch", "eager", "native")
KEYS, D = 3, 12


def placed(backend: str, pairing: str = "half", rows: int = 2, length: int = 6):
    at = torch.stack([positions.arange(length, offset=9 * row) for row in range(rows)])
    return Rotary(D, pairing=pairing, rotary_dim=8, backend=backend).at(at)


def qk(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.randn(2, 4, 6, D).to(dtype), torch.randn(2, KEYS, 6, D).to(dtype)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.usefixtures("native_built")
class TestOneOfTwo:
    def test_into_memory_at_hand(self, backend: str, pairing: str) -> None:
        here, (q, k) = placed(backend, pairing), qk()
        want = here.rotate(q, k)
        room = torch.empty_like(k)
        assert here.rotate(None, k, out=(None, room))[1] is room
        assert torch.equal(room, want[1])
        fresh, same = here.rotate(q, k, out=(None, k))
        assert same is k
        assert torch.equal(k, want[1])
        assert torch.equal(fresh, want[0])

    def test_neither_is_refused(self, backend: str, pairing: str) -> None:
        with pytest.raises(InvalidArgument, match="q and k are both None; pass q or k"):
            placed(backend, pairing).rotate(None, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rest", [0, 3])
@pytest.mark.usefixtures("native_built")
def test_tokens_before_heads_are_the_same_bits(level: str, pairing: str, dtype: torch.dtype, rest: int) -> None:
    rotary = Rotary(40 + rest, pairing=pairing, rotary_dim=40, backend="native")
    x = torch.randn(2, 7, 3, 40 + rest).to(dtype)
    work = torch.promote_types(dtype, torch.float32)
    want = rotate(layouts.from_bthd(x), *rotary.tables(positions.arange(7), work), pairing)
    with at_level(level):
        got, _ = rotary.at(positions.arange(7), dtype=work).rotate(layouts.from_bthd(x), None)
        assert torch.equal(got, want)
        assert got.stride() == layouts.from_bthd(x).stride()
        rotary.at(positions.arange(7), dtype=work).rotate(
            None, layouts.from_bthd(x), out=(None, layouts.from_bthd(x))
        )
    assert torch.equal(layouts.from_bthd(x), want)
