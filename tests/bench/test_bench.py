"""The benchmark refuses a speed to whatever computes something wrong."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from benchmarks import accuracy, alibi, biases, decode, page, rope
from benchmarks.growth import growths
from benchmarks.measure import Result, Row, Table, exponent, measure
from torch import Tensor

import posenc
from posenc import Mask
from posenc.attend import call
from posenc.encodings.alibi import LinearBias
from posenc.kernels import backend
from posenc.kernels.rotary import eager

SHAPE = (1, 2, 16, 8)


def red(results: list[Result]) -> set[str]:
    return {result.row.name for result in results if result.error is not None}


def small(backward: bool = False, pairing: str = "half") -> Table:
    return rope.table(pairing, torch.float32, backward, SHAPE, with_peers=False)


@pytest.fixture(autouse=True)
def _uncompiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where no compiler is: the native kernel has tests of its own. Nothing is collected before it is timed."""
    monkeypatch.setattr("posenc.kernels.native.lacking", lambda: "left out")
    monkeypatch.setattr("benchmarks.measure.gc.collect", lambda *generation: 0)
    backend.by_name.cache_clear()
    yield
    backend.by_name.cache_clear()


@pytest.mark.parametrize(("pairing", "backward"), [("half", False), ("interleaved", True)])
def test_what_is_right_is_timed(pairing: str, backward: bool) -> None:
    results = measure(small(backward, pairing), rounds=2)
    assert red(results) == set()
    assert all(len(result.seconds) == 2 for result in results)
    assert results[0].ratio == 1
    assert results[0].peak == 4 * 2 * 16 * 8 * (4 if backward else 2)


@pytest.mark.parametrize("backward", [False, True])
def test_a_broken_kernel_turns_its_row_red_and_gets_no_speed(
    backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = eager._rotate_block
    monkeypatch.setattr(eager, "_rotate_block", lambda x, cos, sin, pairing: right(x, cos, -sin, pairing))
    table = small(backward)
    results = measure(table, rounds=2)
    assert red(results) == {"posenc, eager"}
    if not backward:
        assert red(measure(rope.at_hand("half", torch.float32, SHAPE), rounds=1)) == {
            "posenc, eager, preallocated",
            "posenc, eager, in place",
        }
    broken = next(result for result in results if result.row.name == "posenc, eager")
    assert broken.seconds == []
    assert broken.peak is None
    (line,) = [line for line in page.lines(results, table) if line.startswith("| posenc, eager |")]
    assert line.startswith("| posenc, eager | red: error ")
    assert line.endswith("| | | | | | |")
    broken.row = replace(broken.row, target=1.15)
    assert any("| red | missed: error" in line for line in page.targets([(table, results)]))


def test_a_kernel_wrong_in_its_gradient_alone_is_red() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q: Tensor, k: Tensor):
            return q.clone(), k.clone()

        @staticmethod
        def backward(ctx, *grads: Tensor):
            return tuple(2 * g for g in grads)

    q = torch.randn(3, requires_grad=True)

    def run() -> tuple[Tensor, ...]:
        y = Wrong.apply(q, q * 1)
        return (y[0], *torch.autograd.grad(y[0].sum(), q))

    table = Table(
        "wrong", [Row("base", run), Row("wrong", run, 1e-6)], lambda: (q.detach().double(), torch.ones(3))
    )
    assert red(measure(table, rounds=1)) == {"wrong"}


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e-3])
def test_nan_is_no_pass(wrong: float) -> None:
    table = Table("nan", [Row("row", lambda: (torch.tensor([wrong]),), 1e-6)], lambda: (torch.zeros(1),))
    assert red(measure(table, rounds=1)) == {"row"}


def test_outputs_of_another_number_or_shape_are_red() -> None:
    exact = (torch.zeros(2),)
    rows = [Row("two", lambda: (torch.zeros(2), torch.zeros(2)), 1.0), Row("long", lambda: (torch.zeros(3),), 1.0)]
    results = measure(Table("shapes", rows, lambda: exact), rounds=1)
    assert [r.error for r in results] == ["2 outputs instead of 1", "shape (3,) instead of (2,)"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["packed into four", "left-padded"])
def test_attention_that_leaves_out_what_is_hidden_is_gated(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of fewer tokens are masked; both ways are held against float64, and hiding too little is red."""
    for short in (1, 128):
        monkeypatch.setattr("posenc.attend.ways.SHORT_DOCUMENT", short)
        monkeypatch.setattr("posenc.attend.ways.SHORT_ROW", short)
        assert red(measure(alibi.hiding(32, torch.float32, True, how, heads=4, channels=8), rounds=1)) == set()

    def everything(mask: Mask, T: int, S: int, biased: bool) -> tuple | None:
        return None if mask.only_causal else (((T, True),),)

    monkeypatch.setattr("posenc.attend.ways.spans", everything)
    assert red(measure(alibi.hiding(32, torch.float32, True, how, heads=4, channels=8), rounds=1)) == {"posenc"}


RIGHT = LinearBias.__init__
BACKWARDS = (LinearBias, "__init__", lambda self, slopes, *positions: RIGHT(self, -slopes, *positions))
ZEROS = (call, "sdpa", lambda q, *_, **__: torch.zeros_like(q))
UNTURNED = (eager, "_rotate_block", lambda x, cos, sin, pairing: None)
HEADS = {"heads": 4, "channels": 8}
GATED: dict[str, tuple[Callable[[], Table], tuple[Any, str, object], set[str]]] = {
    **{
        f"alibi, backward={backward}, {kv_heads} of keys": (
            partial(alibi.table, 24, torch.float32, backward, kv_heads=kv_heads, **HEADS),
            BACKWARDS,
            {"posenc", "posenc, toeplitz", "posenc, low rank", "full (H, L, L) bias, SDPA"},
        )
        for backward, kv_heads in ((False, 4), (True, 4), (True, 2))
    },
    "decoding": (
        partial(decode.table, torch.float32),
        UNTURNED,
        {"posenc, eager, half", "posenc, eager, interleaved"},
    ),
    "a step under rotary": (partial(decode.layer, "rotary", torch.float32), ZEROS, {"posenc"}),
    "a step under t5": (partial(decode.layer, "t5", torch.float32), ZEROS, {"posenc"}),
}
"""Tables, a fault, and the rows that it makes wrong."""


@pytest.mark.slow
@pytest.mark.parametrize("name", GATED)
def test_what_a_fault_makes_wrong_is_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, fault, wrong = GATED[name]
    assert red(measure(make(), rounds=1)) == set()
    monkeypatch.setattr(*fault)
    assert red(measure(make(), rounds=1)) == wrong


def test_accuracy_at_every_limit() -> None:
    errors = accuracy.errors()
    assert max(errors["posenc, exact"].values()) <= 3.1e-8
    assert errors['posenc, phases="float32"']["1e6"] > 1e-2


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_every_growth_is_measured() -> None:
    for growth in growths():
        assert len(growth.costs) == len(growth.lengths)
        assert min(growth.costs) > 0, growth


def test_the_exponent_is_the_power() -> None:
    assert exponent([1, 2, 4, 8], [3.0, 12.0, 48.0, 192.0]) == pytest.approx(2)


def test_ratios_are_to_the_base_of_their_round_however_slow_it_is() -> None:
    rows = [Row("slow", lambda: (time.sleep(0.02), ())[1]), Row("fast", lambda: ())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.measure.counts_processor_time", lambda: False)
        _, fast = measure(Table("", rows, tuple), seconds=0.2)
    assert max(fast.ratios) < 0.5


def test_a_window_has_its_rows() -> None:
    assert [row.name for row in biases.windows(256, torch.float32, True).rows[1:]] == ["nope", "alibi", "t5"]


def test_every_bias_over_one_axis_has_its_row() -> None:
    """What acts at the scores alone and needs no coordinates; gradients flow through all of them."""
    table = biases.table(8, torch.float32, True)
    of_one_axis = [
        name
        for name in posenc.CATALOGUE
        if (made := posenc.encoding(name, width=32, heads=4, head_dim=8, num_positions=8)).acts_on == ("bias",)
        and made.axes == 1
    ]
    assert [row.name for row in table.rows[1:]] == of_one_axis
    for row in table.rows:
        assert [x.shape for x in row.run()] == [(1, 8, 8, 64)] * 4
