"""Documents are read in planned looks until every method is decided; verdicts keep their error over all looks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.workbench.extend.curves import Extension
from posenc.workbench.extend.extend import extend
from posenc.workbench.extend.verdict import ERROR, MARGIN, judge, looks, until_decided
from posenc.workbench.report.extension import answer, as_json
from posenc.workbench.run.job import in_process
from posenc.workbench.run.ledger import Ledger
from support.extensions import made
from workbench.test_extend import BYTES, TEXT, request, small

NAMES = ("none", "linear", "ntk", "dynamic", "yarn", "yarn-paper", "llama3")


def drawn(seed: int, budget: int, truth: list[float], noise: float) -> Callable[[int], Extension]:
    """What a study with these true losses far out measures of its first documents."""
    generator = torch.Generator().manual_seed(seed)
    flat = made(**{name: [2.0] * 6 for name in NAMES[: len(truth)]}, window=[2.0])
    own = torch.randn(budget, 1, generator=generator, dtype=torch.float64)  # which pairs cancel
    curves = []
    for curve, loss in zip(flat.curves, truth, strict=True):
        spread = noise * torch.randn(budget, 1, generator=generator, dtype=torch.float64)
        curves.append(replace(curve, losses=(own + loss + spread).expand(-1, 6)))

    def measured(count: int) -> Extension:
        some = tuple(replace(curve, losses=curve.losses[:count]) for curve in curves)
        return replace(flat, curves=some, window=own[:count, 0], budget=budget)

    return measured


def test_looks_are_halves_of_the_budget() -> None:
    assert [looks(n) for n in (1, 2, 7, 8, 12, 20, 32)] == [
        (1,),
        (2,),
        (7,),
        (4, 8),
        (6, 12),
        (5, 10, 20),
        (4, 8, 16, 32),
    ]


def test_a_study_ends_at_the_first_look_that_decides() -> None:
    plain = until_decided(8, drawn(0, 8, [0.0, 1.0, 0.5], 0.01))
    assert len(plain.window) == 4
    assert "(4 documents of 8 at most, nats per token)" in answer(plain, judge(plain))
    assert as_json(plain)["documents_at_most"] == 8
    close = until_decided(8, drawn(0, 8, [0.0, MARGIN], 0.05))
    assert len(close.window) == 8


def test_a_verdict_of_an_early_look_needs_more() -> None:
    """The same documents with one look planned, and as the first of three."""
    measured = drawn(1, 16, [0.0, 0.06, 0.2], 0.02)
    alone, first = judge(replace(measured(4), budget=4)), judge(measured(4))
    for one, other in zip(alone.scores[1:], first.scores[1:], strict=True):
        assert one.to_best is not None
        assert other.to_best is not None
        assert other.to_best.high - other.to_best.low > 1.5 * (one.to_best.high - one.to_best.low)


def test_extend_reads_no_document_after_the_one_that_decides(
    tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    """Methods of equal frequencies are as good as each other; a thousandfold stretch is not."""
    asked = request(documents=16, names=("none",))
    model = small()
    found = extend(model, BYTES, TEXT, asked, ledgers(tmp_path), in_process)
    assert (len(found.window), found.budget, model.calls) == (4, 16, 2 * 4)
    tuned = extend(small(), BYTES, TEXT, replace(asked, finetune=1), ledgers(tmp_path), in_process)
    assert len(tuned.window) == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "methods", "noise"),
    [
        *((n, 2 + n % 3, 0.05) for n in range(2, 13)),
        (2, 7, 0.05),
        (8, 7, 0.02),
        (8, 7, 0.2),
        (16, 2, 0.02),
        (16, 3, 0.2),
    ],
)
def test_at_most_5_of_100_verdicts_are_wrong(budget: int, methods: int, noise: float) -> None:
    """Through the stopping rule: methods that are equal, and ones that are worse by exactly the margin."""
    draws = 1000
    for truth in ([0.0] * methods, [0.0] + [MARGIN] * (methods - 1)):
        wrong = 0
        for seed in range(draws):
            best, *others = judge(until_decided(budget, drawn(seed, budget, truth, noise))).scores
            least = truth[NAMES.index(best.curve.method.name)]
            for score in others:
                more = truth[NAMES.index(score.curve.method.name)] - least
                wrong += {"worse": more <= 0, "as good": more >= MARGIN}.get(score.standing, False)
        assert wrong <= ERROR * draws * (methods - 1), truth


@pytest.mark.slow
@pytest.mark.parametrize("methods", [2, 7])
def test_three_margins_are_seen_with_eight_documents(methods: int) -> None:
    """With a spread of one margin from document to document, in at least 90 of 100 draws."""
    truth, worse = [0.0] + [3 * MARGIN] * (methods - 1), 0
    for seed in range(1000):
        scores = judge(until_decided(8, drawn(seed, 8, truth, MARGIN / 2**0.5))).scores
        worse += sum(score.standing == "worse" for score in scores)
    assert worse >= 0.9 * 1000 * (methods - 1)
