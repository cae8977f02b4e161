"""KERPLE's two kernels against their formula in float64, and its parameters as checkpoints have them."""

import math

import pytest
import torch

from posenc import Kerple


@pytest.mark.parametrize("distance", [0, 1, 7, 300, 2**31 - 1])
def test_the_formula_one_number_at_a_time(distance: int) -> None:
    """exp of ln r is off by a unit of float64 or two, and so is what it multiplies."""
    size, growth = [0.02, 1.5, 2.0], [0.9, 0.01, 0.5]
    for kernel, formula in (
        ("log", lambda r, g: -r * math.log1p(g * distance)),
        ("power", lambda r, g: -r * distance**g),
    ):
        want = [formula(r, g) for r, g in zip(size, growth, strict=True)]
        kerple = Kerple(3, kernel=kernel).double()
        kerple.set(*(torch.tensor(numbers, dtype=torch.float64) for numbers in (size, growth)))
        bias = kerple.at(torch.tensor([distance]), torch.tensor([0]), dtype=torch.float64).bias
        assert bias.rows(0, 1, 1).flatten().tolist() == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_fresh_numbers_lie_where_the_authors_draw_them(kernel: str) -> None:
    size, growth = Kerple(4000, kernel=kernel).numbers()
    most = (2.0, 1.0) if kernel == "log" else (1.0, 2.0)
    for numbers, largest in ((size, most[0]), (growth, most[1])):
        assert 0.009 < numbers.min() < 0.03
        assert 0.97 * largest < numbers.max() < 1.001 * largest
        assert abs(numbers.mean() - largest / 2) < 0.05


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_no_step_of_training_leaves_the_range(kernel: str) -> None:
    """Where the authors' numbers go below zero between two clamps, and their gradient does not know."""
    kerple = Kerple(2, kernel=kernel)
    with torch.no_grad():
        for parameter in kerple.parameters():
            parameter.sub_(30.0)
    size, growth = kerple.numbers()
    assert (size > 0).all()
    assert (growth > 0).all()


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_second_derivatives_are_finite_at_distance_zero(kernel: str) -> None:
    """In floating point the logarithm that 0^g is differentiated by is infinite."""
    kerple = Kerple(2, kernel=kernel).double()
    bias = kerple.at(torch.arange(3), dtype=torch.float64).bias
    (first,) = torch.autograd.grad(bias.rows(0, 3, 3).square().sum(), kerple.growth, create_graph=True)
    assert torch.stack(torch.autograd.grad(first.sum(), list(kerple.parameters()))).isfinite().all()


def test_far_distances_are_told_apart_in_a_bf16_model() -> None:
    """bfloat16 holds no whole number between 256 and 258."""
    rows = Kerple(1, kernel="power").bfloat16().at(torch.tensor([300]), torch.tensor([0, 1, 2])).bias.rows(0, 1, 3)
    assert (rows.diff() > 0).all()
    assert rows.dtype == torch.float32
