"""Learned positions: a clamped end, gradients and the first numbers."""

import pytest
import torch

from posenc import Learned


def test_clamp_reuses_the_last_row_knowingly() -> None:
    table = Learned(8, 4, past_end="clamp")
    assert torch.equal(table.table(torch.tensor([6, 7, 8, 2**31 - 1])), table.weight[[6, 7, 7, 7]])


def test_rows_are_added_and_trained() -> None:
    table = Learned(8, 4)
    x = torch.randn(2, 3, 4, requires_grad=True)
    y = table.at(torch.tensor([[0, 1, 2], [5, 5, 7]])).embed(x)
    assert torch.equal(y[1], x[1] + table.weight[[5, 5, 7]])
    y.sum().backward()
    assert table.weight.grad[:, 0].tolist() == [1, 1, 1, 0, 0, 2, 0, 1]


def test_rows_start_with_the_standard_deviation_asked_for() -> None:
    """400 000 draws: the standard error of their deviation is 0.0011 of it, and five of those pass."""
    assert Learned(1000, 400).weight.std().item() == pytest.approx(0.02, rel=0.006)
    assert Learned(1000, 400, std=0.5).weight.std().item() == pytest.approx(0.5, rel=0.006)
