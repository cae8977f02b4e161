"""The learned grid: rows by place, resized tables, gathers that export, and what it refuses."""

import pytest
import torch

from posenc import LearnedGrid
from posenc.encodings.resize import RESIZES, gathered, matrix
from posenc.positions import grid
from support.default_dtype import default_dtype


def test_a_token_gets_the_entry_of_its_place() -> None:
    table = LearnedGrid(3, 8, columns=5)
    x, at = torch.randn(2, 4, 8), torch.tensor([[0, 2, 1, 0], [4, 0, 3, 1]])
    assert torch.equal(table.at(at).embed(x), x + table.weight[[4, 10, 8, 1]])


def test_rows_and_columns_may_have_tables_of_their_own() -> None:
    table = LearnedGrid(3, 8, columns=5, tables="sum")
    assert table.weight.shape == (8, 8)
    x, at = torch.randn(1, 2, 8), torch.tensor([[2, 0], [4, 1]])
    torch.testing.assert_close(
        table.at(at).embed(x), x + table.weight[[2, 0]] + table.weight[[7, 4]], rtol=0, atol=1e-6
    )


def test_a_picture_of_its_own_size_is_not_interpolated() -> None:
    table = LearnedGrid(4, 8, resize="timm")
    assert torch.equal(table.resized(4, 4).table(), table.table())


def test_a_resized_table_trains_the_one_it_is_made_from() -> None:
    table = LearnedGrid(4, 8, resize="vit")
    small = table.resized(2, 3)
    assert small.weight is table.weight
    small.at(grid(2, 3)).embed(torch.zeros(1, 6, 8)).sum().backward()
    # Every place of the picture adds up its weights to 1, whichever entries they fall on.
    torch.testing.assert_close(table.weight.grad.sum(0), torch.full((8,), 6.0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("how", RESIZES)
@pytest.mark.parametrize(("source", "target"), [(16, 7), (16, 37), (5, 5), (1, 4), (9, 1)])
def test_weights_add_up_to_one(how: str, source: int, target: int) -> None:
    sums = matrix(how, target, source).sum(1)
    torch.testing.assert_close(sums, torch.ones(target, dtype=torch.float64), rtol=0, atol=1e-14)


def test_sixteen_bits_are_resized_in_float32() -> None:
    table = LearnedGrid(16, 8, resize="timm", std=1.0).to(torch.bfloat16)
    want = LearnedGrid(16, 8, resize="timm")
    with torch.no_grad():
        want.weight.copy_(table.weight)
    assert table.resized(7, 7).table().dtype == torch.float32
    torch.testing.assert_close(table.resized(7, 7).table(), want.resized(7, 7).table(), rtol=0, atol=0)


def test_a_picture_that_fits_or_a_table_without_a_convention_is_left_as_it_is() -> None:
    table, fixed = LearnedGrid(4, 8, resize="vit"), LearnedGrid(4, 8)
    assert table.enlarged(4, 2) is table
    assert fixed.enlarged(9, 9) is fixed
    larger = table.enlarged(4, 6)
    assert torch.equal(larger.table(), table.resized(4, 6).table())
    assert larger.weight is table.weight


@pytest.mark.parametrize("default", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name, resize in RESIZES.items() if not resize.antialias])
def test_sizes_as_data_weigh_as_sizes_as_numbers_do(name: str, default: torch.dtype) -> None:
    """Weights are float64 however sizes are given: a sum with a size is not rounded to the default type."""
    table, cells = torch.randn(5, 7, 3, dtype=torch.float64), grid(300, 9)
    want = torch.einsum("ia,jb,abc->ijc", matrix(RESIZES[name], 300, 5), matrix(RESIZES[name], 9, 7), table)
    with default_dtype(default):
        rows = gathered(table, cells, torch.tensor([[300], [9]]), name)
    torch.testing.assert_close(rows, want.flatten(0, 1), rtol=0, atol=1e-12)
