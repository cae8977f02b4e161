"""Rotation of one of queries and keys, of other layouts, and of keys into the slots of a cache."""

import pytest
import torch
from torch import Tensor

from posenc import Rotary, layouts, positions
from posenc.errors import InvalidArgument
from posenc.kernels import native
from posenc.kernels.rotary import Tables, rotate, rotate_both
from support.native_kernel import LEVELS, at_level

PAIRINGS = ("half", "interleaved")
BACKENDS = ("torch", "eager", "native")
PAGES, SIZE, KEYS, D = 5, 8, 3, 12


def placed(backend: str, pairing: str = "half", rows: int = 2, length: int = 6):
    at = torch.stack([positions.arange(length, offset=9 * row) for row in range(rows)])
    return Rotary(D, pairing=pairing, rotary_dim=8, backend=backend).at(at)


def qk(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.randn(2, 4, 6, D).to(dtype), torch.randn(2, KEYS, 6, D).to(dtype)


def slots(dtype: torch.dtype = torch.int64, skipped: tuple[int, ...] = ()) -> Tensor:
    """Twelve places of forty in any order, one for each token; of the skipped tokens none."""
    chosen = torch.randperm(PAGES * SIZE)[:12]
    chosen[list(skipped)] = -1
    return chosen.view(2, 6).to(dtype)


def written(pages: Tensor, keys: Tensor, at: Tensor) -> Tensor:
    """The pages after one key after the other was written to its place."""
    pages = pages.clone()
    for row, token in torch.cartesian_prod(torch.arange(2), torch.arange(6)).tolist():
        slot = int(at[row, token])
        if slot >= 0:
            pages[slot // SIZE, :, slot % SIZE] = keys[row, :, token]
    return pages


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.usefixtures("native_built")
class TestOneOfTwo:
    def test_the_other_is_none(self, backend: str, pairing: str) -> None:
        here, (q, k) = placed(backend, pairing), qk()
        want = here.rotate(q, k)
        for recorded in (False, True):
            with torch.set_grad_enabled(recorded):
                assert torch.equal(here.rotate(q, None)[0], want[0])
                assert here.rotate(q, None)[1] is None
                assert torch.equal(here.rotate(None, k)[1], want[1])
                assert here.rotate(None, k)[0] is None

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
        with pytest.raises(InvalidArgument, match="q and k are both None; give the one to rotate"):
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


@pytest.mark.usefixtures("native_built")
class TestSlots:
    @pytest.mark.parametrize("skipped", [(), (0, 4, 11), tuple(range(12))], ids=["none", "some", "all"])
    @pytest.mark.parametrize("of", [torch.int32, torch.int64])
    @pytest.mark.parametrize("layout", ["heads first", "tokens first", "keys beside values"])
    @pytest.mark.parametrize("pairing", PAIRINGS)
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_each_key_goes_to_its_own(
        self, backend: str, pairing: str, layout: str, of: torch.dtype, skipped: tuple[int, ...]
    ) -> None:
        pages = {
            "heads first": lambda: torch.randn(PAGES, KEYS, SIZE, D),
            "tokens first": lambda: layouts.from_bthd(torch.randn(PAGES, SIZE, KEYS, D)),
            "keys beside values": lambda: layouts.from_bthd(torch.randn(PAGES, 2, SIZE, KEYS, D)[:, 0]),
        }[layout]()
        here, (q, k), at = placed(backend, pairing), qk(), slots(of, skipped)
        rotated = here.rotate(q, k)
        want, version = written(pages, rotated[1], at), pages._version
        got = here.rotate(q, k, out=(None, pages), slots=at)
        assert got[1] is pages
        assert pages._version > version
        assert torch.equal(pages, want)
        assert torch.equal(got[0], rotated[0])
        assert here.rotate(None, k, out=(None, pages), slots=at)[0] is None

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("level", LEVELS)
    def test_every_level_writes_the_same_bits(self, level: str, dtype: torch.dtype) -> None:
        here, (_, k), at = placed("native"), qk(dtype), slots(torch.int32, (3,))
        pages = torch.randn(PAGES, KEYS, SIZE, D).to(dtype)
        want = written(pages, here.rotate(None, k)[1], at)
        with at_level(level):
            here.rotate(None, k, out=(None, pages), slots=at)
        assert torch.equal(pages, want)

    @pytest.mark.usefixtures("native_built")
    def test_one_sequence_has_one_row_of_slots(self) -> None:
        here, k = placed("auto", rows=1), torch.randn(1, KEYS, 6, D)
        pages, at = torch.zeros(1, KEYS, 20, D), torch.tensor([4, 3, 19, 0, 7, 8], dtype=torch.int32)
        here.rotate(None, k, out=(None, pages), slots=at)
        assert torch.equal(pages[:, :, at.long()], here.rotate(None, k)[1])
        assert int(pages.abs().sum((0, 1, 3)).count_nonzero()) == 6

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_gradients_follow(self, backend: str) -> None:
        here, (_, k), at = placed(backend), qk(), slots(skipped=(5,))
        pages = torch.zeros(PAGES, KEYS, SIZE, D) * 1
        here.rotate(None, k.requires_grad_(), out=(None, pages), slots=at)
        (grad,) = torch.autograd.grad(pages.square().sum(), k)
        want = torch.where(at[:, None, :, None] >= 0, 2 * k, 0.0)
        torch.testing.assert_close(grad, want)

    def test_plain_operators_look_at_no_value(self) -> None:
        """So a GPU is not waited for: nothing on the meta device has a value."""
        with torch.device("meta"):
            k, at, pages = torch.randn(2, KEYS, 6, D), torch.zeros(2, 6).int(), torch.zeros(PAGES, KEYS, SIZE, D)
            tables = Tables(*torch.randn(2, 2, 1, 6, 4))
        got = rotate_both(None, k, tables, tables, "half", out=(None, pages), slots=at)
        assert got[1] is pages

    @pytest.mark.usefixtures("unchecked")
    def test_what_does_not_fit_is_refused(self) -> None:
        here, (q, k), at = placed("native"), qk(), slots()
        pages = torch.zeros(PAGES, KEYS, SIZE, D)
        for arguments, message in {
            (q, None, (None, pages), at): "give k, and its pages",
            (q, k, None, at): "give k, and its pages",
            (q, k, (None, pages.transpose(1, 2)), at): r"takes pages \(N, 3, page size, 12\).*from_bthd",
            (q, k, (None, pages.double()), at): "takes pages",
            (q, k, (None, pages[:1].expand(PAGES, -1, -1, -1)), at): "give each a place of its own",
            (q, k, (None, pages), at.float()): "give int32 or int64",
            (q, k, (None, pages), at[0]): "give one a token",
            (q, k, (None, pages), at + 40): r"the pages have 40 places",
        }.items():
            with pytest.raises(InvalidArgument, match=message):
                here.rotate(arguments[0], arguments[1], out=arguments[2], slots=arguments[3])
        assert not pages.any()
        assert native.level()
