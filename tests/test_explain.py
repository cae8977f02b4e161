"""``posenc.explain`` names the way that attention takes, ``backend=`` takes it, and one that is wrong refuses."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import posenc
from posenc import Mask, attention, explain, positions, scores
from posenc.attend.attend import Backend
from posenc.attend.call import LONG
from posenc.attend.offers import WAYS
from posenc.errors import InvalidArgument, UnknownName

CLOSE = 64 * 2.0**-24
"""Ways differ in the order of float32 sums of a hundred numbers of about one."""

PACKED = Mask(causal=True, q_segments=torch.arange(80) // 40)
PADDED = Mask(causal=True, key_mask=torch.arange(80)[None] % 9 > 0)


def given(name: str, T: int = 80, **settings: object) -> tuple[Tensor, Tensor, Tensor, posenc.Placed]:
    encoding = posenc.encoding(name, heads=4, head_dim=16, width=32, **settings)
    layer, _ = encoding.at(positions.arange(T))[0].with_content(torch.randn(1, T, 32))
    return *layer.rotate(*torch.randn(2, 1, 4, T, 16)), torch.randn(1, 4, T, 16), layer


CALLS: dict[str, Callable[[], tuple[tuple, dict]]] = {
    "operators": lambda: (given("cope", T=400), {"causal": True}),
    "documents": lambda: (given("alibi"), {"mask": PACKED}),
    "reach": lambda: (given("alibi", T=LONG), {"causal": True}),
    "low_rank": lambda: (given("fox", T=300), {"causal": True}),
    "dense": lambda: (given("t5"), {"causal": True}),
    "sdpa": lambda: (given("rotary"), {"causal": True}),
    "toeplitz": lambda: (given("alibi"), {"causal": True}),
    "blocks": lambda: (given("alibi"), {"mask": PADDED}),
}


@pytest.mark.parametrize("backend", CALLS)
def test_each_way_is_reached_named_and_taken_by_name(backend: Backend) -> None:
    arguments, settings = CALLS[backend]()
    explanation = explain(*arguments, **settings)
    assert explanation.backend == backend
    first, *others = str(explanation).splitlines()
    assert first == f"{backend}: {explanation.reason}"
    assert explanation.reason
    assert others == [f"  not {name}: {why}" for name, why in explanation.declined]
    assert [name for name, _ in explanation.declined] == list(WAYS)[: list(WAYS).index(backend)]
    assert explain(*arguments, **settings, backend=backend).backend == backend
    taken = attention(*arguments, **settings)
    assert torch.equal(attention(*arguments, **settings, backend=backend), taken)
    q, k, v, placed = arguments
    want = scores(q, k, placed, **settings).softmax(-1).nan_to_num(0.0) @ v
    torch.testing.assert_close(taken, want, rtol=0, atol=CLOSE * (1 + want.abs().max().item()))


@pytest.mark.parametrize(
    ("name", "T", "settings", "backend"),
    [
        ("rotary", 80, {"return_logsumexp": True}, "sdpa"),
        ("rotary", 80, {"window": 3, "sinks": torch.zeros(4)}, "blocks"),
        ("rotary", 80, {"softcap": 30.0}, "operators"),
        ("rotary", 80, {"window": 3}, "blocks"),
        ("xpos", 80, {}, "sdpa"),
        ("fox", LONG, {}, "low_rank"),
        ("alibi", LONG, {}, "reach"),  # by length, and steep heads
        ("alibi", LONG - 1, {}, "toeplitz"),
        ("t5", LONG, {}, "toeplitz"),  # which has no channels
    ],
)
def test_what_is_asked_for_besides_counts(name: str, T: int, settings: dict[str, Any], backend: str) -> None:
    assert explain(*given(name, T), causal=True, **settings).backend == backend


def test_under_torch_func_operators_are_taken() -> None:
    q, k, v, placed = given("rotary")
    seen: list[str] = []

    def watched(q: Tensor) -> Tensor:
        seen.append(explain(q, k, v, placed, causal=True).backend)
        return attention(q, k, v, placed, causal=True).sum()

    torch.func.grad(watched)(q)
    assert seen == ["operators"]


def test_a_gpu_takes_flex_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["posenc.attend.ways"], "serves", lambda q, v: True)
    q, k, v, placed = given("rotary", T=200)
    mask = Mask(causal=True, window=9)
    assert explain(q, k, v, placed, mask).backend == "flex"
    assert explain(*given("rotary"), mask).backend == "blocks", "too few queries"
    assert explain(*given("rotary"), mask, backend="flex").backend == "flex"
    with pytest.raises(
        InvalidArgument, match="backend='flex' does not support this call: it does not support dropout"
    ):
        explain(q, k, v, placed, mask, backend="flex", dropout=0.1)


def test_explain_has_the_arguments_of_attention() -> None:
    parameters = [inspect.signature(call).parameters.values() for call in (attention, explain)]
    names, explained = ([(x.name, x.kind) for x in values] for values in parameters)
    assert names == explained
    defaults = {x.name: x.default for x in parameters[1] if x.kind is x.KEYWORD_ONLY}
    assert defaults == {x.name: x.default for x in parameters[0] if x.kind is x.KEYWORD_ONLY}
    assert defaults.keys() >= {"causal", "window", "scale", "softcap", "sinks", "dropout", "backend"}


def test_nothing_is_attended_to() -> None:
    """Tensors without values explain as others do: a call of a million tokens, whose scores nobody could hold."""
    with FakeTensorMode():
        q, at = torch.empty(1, 4, 1 << 20, 64), torch.arange(1 << 20)
        assert explain(q, q, q, posenc.Placed(at, at), causal=True).backend == "sdpa"
        assert explain(q, q, q, posenc.Placed(at, at), causal=True, backend="operators").backend == "operators"


WRONG = {
    "operators": ("rotary", {"dropout": 0.1}, "it does not support dropout"),
    "documents": ("alibi", {"causal": True}, "no known documents or padded rows"),
    "reach": ("alibi", {"causal": True}, "falls fast enough"),
    "low_rank": ("t5", {"causal": True}, "the bias cannot be written as extra channels"),
    "sdpa": ("alibi", {"causal": True}, "there is a bias"),
    "flex": ("rotary", {"causal": True}, "FlexAttention needs CUDA"),
    "toeplitz": ("rotary", {"causal": True}, "the bias is not a function of the offset"),
    "blocks": ("cope", {"causal": True}, "it does not support biases that read scores"),
}


@pytest.mark.parametrize("backend", WRONG)
def test_a_way_that_does_not_serve_is_refused_with_its_reason(backend: Backend) -> None:
    name, settings, reason = WRONG[backend]
    for call in (attention, explain):
        with pytest.raises(InvalidArgument, match=f"backend='{backend}' does not support this call: .*{reason}"):
            call(*given(name), **settings, backend=backend)


@pytest.mark.usefixtures("unchecked")
def test_names_are_those_of_the_list() -> None:
    assert get_args(Backend) == ("auto", *WAYS)
    with pytest.raises(
        UnknownName, match=r"unknown backend 'lines'.*auto, documents, reach, low_rank, dense, sdpa, toeplitz"
    ):
        explain(*given("rotary"), backend="lines")  # type: ignore[arg-type]
