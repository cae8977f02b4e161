"""Trainable numbers in biases: named or refused, told apart between layers, and stale placings refused."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import posenc
from posenc import Bias, Encoding, OffsetBias, Placed
from posenc.encodings.placed import KeyPositions, Positions
from posenc.errors import InvalidArgument
from posenc.positions import arange


class Slopes(Encoding):
    """−m_h·distance with slopes that learn, twelve lines long, as in the guide."""

    name = "slopes"
    acts_on = ("bias",)
    relative = True

    def __init__(self, heads: int, named: str = "all") -> None:
        super().__init__()
        self.heads, self.named = heads, named
        self.weight = nn.Parameter(torch.ones(heads))
        self.power = nn.Parameter(torch.ones(heads))

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        numbers = {"all": (self.weight, self.power), "one": (self.weight,), "none": ()}[self.named]
        hidden = (self.weight, self.power)[len(numbers) :]
        bias = Power(self.heads, q_positions, k_positions, numbers=numbers, hidden=lambda: hidden)
        return Placed(q_positions, k_positions, bias=bias)


class Power(OffsetBias):
    """−m_h·distance^p of the numbers in its attributes, and of others that it hides."""

    numbers: tuple[Tensor, ...]
    hidden: Callable[[], tuple[Tensor, ...]]

    def values(self, offsets: Tensor) -> Tensor:
        weight, power = (x.view(-1, *[1] * offsets.dim()) for x in (*self.numbers, *self.hidden()))
        return -weight * (1 + offsets.abs().to(weight.dtype)) ** power


class Anything(Bias):
    """A bias of somebody's own that is no function of the offset."""

    def __init__(self, weight: Tensor) -> None:
        self.weight, self.heads = weight, len(weight)

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0) -> Tensor:
        along = torch.arange(float(start), float(keys))
        return self.weight.view(1, -1, 1, 1).expand(1, -1, last - first, keys - start) * along


@pytest.mark.parametrize("named", ["one", "none"])
def test_trainable_numbers_that_are_not_named_are_refused_when_placed(named: str) -> None:
    with pytest.raises(InvalidArgument, match=r"tensors that are not among its attributes.*weight=weight"):
        Slopes(2, named).at(arange(4))
    with torch.no_grad():  # nothing learns here
        Slopes(2, named).at(arange(4))
    Slopes(2, named).requires_grad_(False).at(arange(4))


class Kept(Anything):
    """The same with its weight in a list or a dict."""

    def __init__(self, parts: Any) -> None:
        self.parts, self.heads = parts, 2

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        parts = self.parts[0] if isinstance(self.parts, tuple) else self.parts
        return parts["weight"] if isinstance(parts, dict) else parts[0]


@pytest.mark.parametrize(
    "keep", [lambda x: [x], lambda x: {"weight": x}, lambda x: ([x],)], ids=["list", "dict", "nested"]
)
def test_tensors_in_lists_and_dicts_of_a_bias_learn(keep: Callable[[Tensor], Any]) -> None:
    q, grads = torch.randn(1, 2, 4, 8, requires_grad=True), []
    for kept in (keep, None):
        weight = nn.Parameter(torch.tensor([0.5, -0.25]))
        bias = Anything(weight) if kept is None else Kept(kept(weight))
        placed = Placed(arange(4), arange(4), bias=bias)
        posenc.attention(q, q, q, placed, causal=True, backend="blocks").square().sum().backward()
        grads.append(weight.grad)
    assert torch.equal(*grads)


def test_a_bias_that_holds_a_module_is_refused_when_it_attends() -> None:
    q, bias = torch.randn(1, 2, 4, 8), Anything(torch.ones(2))
    bias.network = nn.Linear(1, 1)  # type: ignore[assignment]
    placed = Placed(arange(4), arange(4), bias=bias)
    with pytest.raises(InvalidArgument, match=r"network of Anything is a module.*store its tensors as attributes"):
        posenc.attention(q, q, q, placed, causal=True)
    bias.network.requires_grad_(False)
    posenc.attention(q, q, q, placed, causal=True)


@pytest.mark.parametrize("return_logsumexp", [False, True])
def test_named_numbers_get_their_gradients_under_functional_call(return_logsumexp: bool) -> None:
    q, encoding = torch.randn(3, 1, 2, 9, 8, dtype=torch.float64), Slopes(2).double()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoding = encoding

        def forward(self, dense: bool) -> Tensor:
            placed = self.encoding.at(arange(9), dtype=torch.float64)
            if dense:
                return (posenc.scores(q[0], q[1], placed, causal=True).softmax(-1) @ q[2]).square().sum()
            y = posenc.attention(*q, placed, causal=True, backend="blocks", return_logsumexp=return_logsumexp)
            return (y[0] if return_logsumexp else y).square().sum()

    weights = {f"encoding.{n}": (p.detach() * 0.7).requires_grad_() for n, p in encoding.named_parameters()}
    got, want = (
        torch.autograd.grad(functional_call(Model(), weights, (dense,)), list(weights.values()))
        for dense in (False, True)
    )
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-8)


def test_check_names_the_cause() -> None:
    report = posenc.check(Slopes(2, "none"), head_dim=4)
    assert any("not among its attributes" in verdict.detail for verdict in report.broken)


def test_a_network_of_the_distance_trains() -> None:
    """A bias by a small network: its parameters are attributes of the bias."""
    network = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2))
    names = [name for name, _ in network.named_parameters()]

    class Network(OffsetBias):
        weights: tuple[Tensor, ...]

        def values(self, offsets: Tensor) -> Tensor:
            given = offsets[..., None].float()
            return functional_call(network, dict(zip(names, self.weights, strict=True)), (given,)).movedim(-1, 0)

    bias = Network(2, arange(6), arange(6), weights=tuple(network.parameters()))
    q = torch.randn(1, 2, 6, 8)
    posenc.attention(
        q, q, q, Placed(arange(6), arange(6), bias=bias), causal=True, backend="blocks"
    ).square().sum().backward()
    # The last layer's bias adds one number to all scores of a row, which softmax does not see.
    for name, parameter in network.named_parameters():
        assert name == "2.bias" or parameter.grad.abs().max() > 0


def test_copies_of_a_placing_are_no_older_than_their_numbers() -> None:
    encoding = posenc.encoding("learned", width=16, num_positions=16)
    placed, x = encoding.at(arange(6)), torch.randn(1, 6, 16)
    with torch.no_grad():
        placed = encoding.at(arange(6))
    for copied in (copy.deepcopy(placed), pickle.loads(pickle.dumps(placed))):
        with torch.no_grad():
            before = copied.embed(x)
            encoding.weight.add_(1.0)
            assert torch.equal(copied.embed(x), before)
            encoding.weight.sub_(1.0)


@pytest.mark.parametrize("text", ["nope", "alibi", "t5", "shaw"])
def test_rows_without_keys_have_finite_gradients_inside_transforms(text: str) -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8, dtype=torch.float64)
    mask = posenc.Mask(causal=True, key_mask=torch.tensor([[False, False, True, True, True, True]]))
    with torch.no_grad():
        placed = posenc.encoding(text, heads=2, head_dim=8).double().at(arange(6), dtype=torch.float64)

    def total(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return posenc.attention(q, k, v, placed, mask).sin().sum()

    leaves = tuple(x.clone().requires_grad_() for x in (q, k, v))
    want = torch.autograd.grad(total(*leaves), leaves)
    torch.testing.assert_close(torch.func.grad(total, (0, 1, 2))(q, k, v), want, rtol=1e-5, atol=1e-13)
