"""A bias of one's own, and biases where float32 has too few digits: far keys, float64 models, other defaults."""

from collections.abc import Callable

import numpy
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import posenc
from posenc import ALiBi, OffsetBias, Placed
from posenc.attend import call, ways
from posenc.errors import InvalidArgument
from posenc.kernels.attention import low_rank
from posenc.positions import arange
from support import reference
from support.attending import attend
from support.default_dtype import default_dtype


class Own(OffsetBias):
    """Whatever a function makes of the offsets."""

    function: Callable[[Tensor], Tensor]

    def values(self, offsets: Tensor) -> Tensor:
        return self.function(offsets)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("straight", [True, False])
def test_a_bias_may_lie_in_memory_as_it_likes(straight: bool, causal: bool) -> None:
    """Both along a line and where positions allow none."""
    at = arange(9) if straight else 2 * arange(9)
    table = torch.randn(101, 3)  # its heads are last, as T5's code has them
    bias = Own(3, at, at, function=lambda offsets: table[offsets.clamp(-50, 50) + 50].movedim(-1, 0))
    placed = Placed(at, at, bias=bias)
    assert (bias.toeplitz is not None) == straight
    q, k, v = torch.randn(3, 2, 3, 9, 4)
    want = reference.attention(q, k, v, bias.values(at[None] - at[:, None]), reference.visible(9, 9, causal=causal))
    # Nine float32 scores of a few units: some roundings of 2^-24 each.
    torch.testing.assert_close(attend(q, k, v, placed, causal=causal), want.float(), rtol=0, atol=2e-6)


class Classes(OffsetBias):
    """Three tensors under names that a table, its first row and its steps would suggest."""

    def values(self, offsets: Tensor) -> Tensor:
        column = (offsets.abs() >= self.low).long() + (offsets.abs() >= self.steps)
        return self.table[:, column]


@pytest.mark.parametrize("at", [arange(9), 2 * arange(9), 10**6 * arange(9), arange(18).view(2, 9) % 7])
def test_a_bias_of_ones_own_may_be_made_of_what_it_calls_a_table(at: Tensor) -> None:
    """Along a line, tabulated, at far positions and in a batch, and the table gets its gradient."""
    table = torch.randn(3, 3, requires_grad=True)
    got = Classes(3, at, at, table=table, low=torch.tensor(1), steps=torch.tensor(4)).rows(0, 9, 9)
    apart = (at[..., None, :] - at[..., :, None]).abs()
    want = table[:, (apart >= 1).long() + (apart >= 4)]
    assert torch.equal(got, want.transpose(0, 1) if at.dim() == 2 else want[None])
    got.sum().backward()
    assert table.grad is not None


@pytest.mark.parametrize("name", ["values", "rows", "toeplitz", "modifier", "trained", "head_range", "fall"])
def test_names_that_every_bias_uses_are_refused_for_ones_own(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} is an attribute of every bias.*choose another.* my_{name}"):
        Own(3, arange(4), arange(4), **{name: torch.zeros(3)})


@pytest.mark.parametrize("made", [None, 1.0, numpy.zeros((3, 7))])
def test_values_that_are_no_tensor_are_refused(made: object) -> None:
    with pytest.raises(
        InvalidArgument, match=r"Own.values\(\) must return a tensor of shape \(H, \*offsets\) = \(3, 7\), .*; got"
    ):
        Own(3, arange(4), arange(4), function=lambda offsets: made)


FAR = [10**6 + 1, 2**24 + 1, 2**26 + 1, 2**31 - 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("far", FAR)
def test_far_keys_are_told_apart_as_finely_as_their_type_is(far: int, dtype: torch.dtype) -> None:
    """A bias m·d is rounded thrice, m or d, their product, and its sum with a score of zero, by half of eps each:
    a weight is off by half of what two keys are off together, at most.
    """
    heads, at = 12, torch.tensor([0, 1, 2])
    q, k = torch.zeros(1, heads, 1, 4, dtype=dtype), torch.zeros(1, heads, 3, 4, dtype=dtype)
    v = torch.eye(3, dtype=dtype).expand(1, heads, 3, 3)
    weights = attend(q, k, v, ALiBi(heads).at(torch.tensor([far]), at, dtype=dtype))[0, :, 0]
    slopes = torch.tensor(reference.slopes(heads), dtype=torch.float64)
    want = (slopes[:, None] * torch.tensor([0.0, 1.0, 2.0])).softmax(-1)
    rounding = 1.5 * torch.finfo(dtype).eps * (1 + slopes[:, None] * far)
    assert ((weights.double() - want).abs() <= rounding).all()


def test_queries_near_and_far_of_one_block_see_what_stands_beside_them() -> None:
    """Rows near and far in one call, keys on both sides, and a gradient that is finite."""
    q_positions, k_positions = torch.tensor([3, 2**30, 2**31 - 1]), torch.tensor([3, 5, 2**30, 2**31 - 1])
    q, k = torch.zeros(1, 2, 3, 4, requires_grad=True), torch.zeros(1, 2, 4, 4)
    weights = attend(q, k, torch.eye(4).expand(1, 2, 4, 4), ALiBi(2).at(q_positions, k_positions))
    bias = reference.Slopes(reference.slopes(2)).bias(q_positions, k_positions)
    torch.testing.assert_close(weights[0].double(), bias.softmax(-1), rtol=0, atol=2**-22)
    (gradient,) = torch.autograd.grad(weights.square().sum(), q)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("heads", [4, 12])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("length", [9, 4096])
def test_a_float64_model_has_float64_slopes(length: int, heads: int, masked: bool) -> None:
    """Twelve heads' slopes are no powers of two: in float32 they would be off by 1e-4 at such distances."""
    at = arange(length)
    q = torch.randn(1, heads, 3, 8, dtype=torch.float64)
    k, v = torch.randn(2, 1, heads, length, 8, dtype=torch.float64)
    placed = ALiBi(heads).at(at[-3:], at, dtype=torch.float64)
    mask = torch.ones(1, length, dtype=torch.bool) if masked else None
    bias = reference.Slopes(reference.slopes(heads)).bias(at[-3:], at)
    want = reference.attention(q, k, v, bias, reference.visible(3, length, causal=True))
    # Biases up to 4096·0.84 in float64: 2^-53 of that, twice, in a score, and so in a weight.
    torch.testing.assert_close(attend(q, k, v, placed, causal=True, key_mask=mask), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("hides", ["key_mask", "segments", "nothing"])
def test_the_default_device_changes_nothing(hides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is found by looking at masks nor what is tried out first."""
    for module in (call, ways):
        monkeypatch.setattr(module, "LONG", 8)
    q, k, v = torch.randn(3, 1, 2, 8, 4)
    masks = {"key_mask": arange(8)[None] > 2, "segments": arange(8) // 3}
    given, placed = {hides: masks[hides]} if hides in masks else {}, ALiBi(2).at(arange(8))
    want = attend(q, k, v, placed, causal=True, **given)
    low_rank._exact.cache_clear()
    with torch.device("meta"):
        got = attend(q, k, v, placed, causal=True, **given)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("default", "dtype", "hides"),
    [
        (torch.float64, torch.float32, "key_mask"),
        (torch.float64, torch.bfloat16, "segments"),
        (torch.float16, torch.float64, "nothing"),
    ],
)
def test_the_default_dtype_changes_nothing(default: torch.dtype, dtype: torch.dtype, hides: str) -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4, dtype=dtype)
    masks = {"key_mask": torch.tensor([[True, True, False, True, True]]), "segments": torch.tensor([0, 0, 1, 1, 1])}
    given = {hides: masks[hides]} if hides in masks else {}
    want = attend(q, k, v, ALiBi(2).at(arange(5)), causal=True, **given)
    with default_dtype(default):
        got = attend(q, k, v, ALiBi(2).at(arange(5)), causal=True, **given)
    assert got.dtype == dtype
    assert torch.equal(got, want)


def test_what_is_exact_is_asked_for_every_choice_of_kernels() -> None:
    """A reference by ``sdpa_kernel(MATH)`` multiplies queries and keys by roots, which other kernels do not."""
    q, k, v = torch.randn(3, 1, 2, 1100, 8)  # the root of 1/√8 is no power of two
    at = 10**6 + 50 * arange(1100)
    placed = ALiBi(2).at(at)
    want = (posenc.scores(q.double(), k.double(), ALiBi(2).at(at, dtype=torch.float64), causal=True)).softmax(-1)
    assert posenc.explain(q, k, v, placed, causal=True).backend == "low_rank"
    with sdpa_kernel(SDPBackend.MATH):
        got = attend(q, k, v, placed, causal=True)
    torch.testing.assert_close(got.double(), want @ v.double(), rtol=0, atol=4e-6)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("at", [arange(5), 3 * arange(5), 10**6 * arange(5), arange(10).view(2, 5)])
@pytest.mark.parametrize(
    "function",
    [
        lambda offsets: offsets.float(),
        lambda offsets: offsets.float().expand(3, *offsets.shape),
        lambda offsets: offsets.float().expand(1, *offsets.shape),
        lambda offsets: offsets.bfloat16().expand(2, *offsets.shape),
        lambda offsets: torch.zeros(2),
    ],
    ids=["no heads", "three heads", "one head", "16 bits", "no offsets"],
)
def test_values_of_another_form_are_refused(function: Callable[[Tensor], Tensor], at: Tensor) -> None:
    """Along a line, from a table, and block by block; with two heads."""
    q = torch.zeros(2, 2, 5, 4)
    with pytest.raises(
        InvalidArgument,
        match=r"Own.values\(\) must return a tensor of shape \(H, \*offsets\) = \(2, .*float32 or wider; got",
    ):
        posenc.attention(q, q, q, Placed(at, at, bias=Own(2, at, at, function=function)))


class OwnRows(posenc.Bias):
    def __init__(self, rows: Tensor) -> None:
        self.heads, self.numbers = 2, rows

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0) -> Tensor:
        return self.numbers


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "rows",
    [torch.zeros(5, 5), torch.zeros(1, 3, 5, 5), torch.zeros(1, 2, 4, 5), torch.zeros(1, 2, 5, 5).half()],
)
def test_rows_of_another_form_are_refused(rows: Tensor) -> None:
    q, at = torch.zeros(1, 2, 5, 4), arange(5)
    with pytest.raises(
        InvalidArgument, match=r"OwnRows.rows\(\) must return .*last three sizes \(2, 5, 5\) and at least 32 bits"
    ):
        posenc.attention(q, q, q, Placed(at, at, bias=OwnRows(rows)))


@pytest.mark.usefixtures("unchecked")
def test_place_returns_a_placed_encoding() -> None:
    class Forgets(posenc.Encoding):
        name, acts_on, relative = "forgets", ("bias",), True

        def place(self, q_positions, k_positions, dtype):
            return q_positions - k_positions

    with pytest.raises(
        InvalidArgument, match=r"result of Forgets.place\(\) is torch.int64 \(5,\) on cpu; expected posenc.Placed"
    ):
        Forgets().at(arange(5))
