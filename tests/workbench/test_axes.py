"""Settings with several values: every combination is trained, and reported at each encoding's best and whole."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.workbench.notebook import Opened
from posenc.workbench.report import words
from posenc.workbench.report.terminal import table
from posenc.workbench.report.write import write
from posenc.workbench.run.plan import Run
from posenc.workbench.study.results import effective_length, summarise
from posenc.workbench.study.statistics import crossed, over_seeds, paired
from posenc.workbench.study.study import as_toml, read_study
from posenc.workbench.tasks import Criteria
from support.studies import TINY, measured, ran

LANGUAGE = Criteria("language", "", "loss", 3.0, 2.5)
TUNED = """
encodings = ["nope", "learned(past_end=clamp)", "rotary"]
tasks = ["needle"]
lengths = [1, 2]
steps = 2
batch = 4
answers = 8
learning_rate = [1e-3, 1e-2]
"""


def run(encoding: str, losses: list[list[float]], learning_rate: float = 1e-3) -> Run:
    """A run with the losses of each block at 64, 128, … tokens."""
    return measured(encoding, {64 * 2**i: blocks for i, blocks in enumerate(losses)}, learning_rate=learning_rate)


def test_a_tuned_grid_is_one_file_and_its_page_names_each_best_rate(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(TUNED)
    study = read_study(config=path)
    outcome = ran(study, tmp_path / "study")
    (result,) = outcome.results
    assert len(result.runs) == len(result.grid) == 6
    page = write(outcome, tmp_path / "study", "posenc compare", study).read_text()
    for row in result.rows:
        of_encoding = [other for other in result.grid if other.encoding == row.encoding]
        assert row.values[64].mean == max(other.values[64].mean for other in of_encoding)
        assert f"{words.label(row)} learning_rate {row.at['learning_rate']:g}" in page
    assert page.count('<tr class="open">\n<th scope="row">') == 3 + 6
    assert "All values of learning_rate" in page
    assert read_study(config=tmp_path / "study" / "study.toml") == study
    data = json.loads((tmp_path / "study" / "tables.json").read_text())["results"]
    assert sorted((row["encoding"], row["learning_rate"]) for row in data) == sorted(
        (row.encoding, row.at["learning_rate"]) for row in result.grid
    )
    assert sum(row["at_best_values"] for row in data) == 3
    opened = Opened(tmp_path / "study")
    assert len(opened.results["needle"].grid) == 6
    assert list(opened.verdicts["learning_rate"]) == [row.at["learning_rate"] for row in result.rows]


def test_lists_are_the_same_in_a_file_and_on_the_command_line_and_one_value_is_no_axis(tmp_path: Path) -> None:
    rates = {"needle": [1e-3, 3e-3]}
    listed = replace(TINY, width=[64, 128], learning_rate=rates, layers=[2])  # type: ignore[arg-type]
    assert (listed.width, listed.layers) == ((64, 128), 2)
    assert listed.axes("ordering") == {"width": (64, 128)}
    assert [len(listed.points(task)) for task in listed.tasks] == [2, 4]
    assert len(listed.plans(None)) == 3 * (2 + 4)
    (tmp_path / "study.toml").write_text(as_toml(listed, tmp_path))
    assert read_study(config=tmp_path / "study.toml") == listed
    typed = read_study(options={"learning_rate": "1e-3,3e-3", "norm": "layer,rms", "batch": "8"})
    assert (typed.learning_rate, typed.norm, typed.batch) == ((1e-3, 3e-3), ("layer", "rms"), 8)


def test_two_counts_of_tokens_that_are_the_same_steps_are_one_run() -> None:
    assert len(replace(TINY, tasks=("needle",), steps=None, tokens=(500, 501, 5000)).plans(None)) == 3 * 2


def test_each_encoding_is_at_what_is_best_at_the_trained_length() -> None:
    good, bad, far = [[1.0] * 4, [3.0] * 4], [[1.5] * 4, [1.5] * 4], [[1.2] * 4, [1.2] * 4]
    runs = [run("rotary", bad), run("rotary", good, 3e-3), run("alibi", far), run("alibi", bad, 3e-3)]
    result = summarise(LANGUAGE, runs)
    assert {row.encoding: row.at["learning_rate"] for row in result.rows} == {"alibi": 1e-3, "rotary": 3e-3}
    assert [row.encoding for row in result.grid] == ["alibi", "alibi", "rotary", "rotary"]
    assert words.best_values(result) == (
        "Best values of learning_rate at 64: ALiBi learning_rate 0.001; RoPE learning_rate 0.003."
    )
    assert "RoPE (learning_rate 0.003)" in [str(cell) for cell in table(result).columns[0].cells]
    (gap,) = (row.to_best for row in result.rows if row.to_best)
    assert gap.mean == pytest.approx(1.8)


def test_trained_lengths_are_results_of_their_own(tmp_path: Path) -> None:
    study = replace(TINY, encodings=("nope",), tasks=("ordering",), train_length=(16, 32))
    outcome = ran(study, tmp_path)
    assert [(result.name, result.lengths) for result in outcome.results] == [
        ("ordering-16", (16, 32)),
        ("ordering-32", (32, 64)),
    ]
    assert {*Opened(tmp_path).verdicts["task"]} == {"ordering-16", "ordering-32"}
    page = write(outcome, tmp_path, "posenc compare", study).read_text()
    for words_of_page in (
        'id="ordering-16"',
        'id="figure-ordering-32"',
        "Transformer of ordering/nope/seed 0, train_length 16: 2 layers, width",  # others may differ
    ):
        assert words_of_page in page
    assert "Fixed targets" not in page  # of a text, which no task reads


def test_an_interval_over_seeds_and_blocks_holds_the_mean_of_other_seeds_and_other_blocks() -> None:
    """Losses are drawn as seed + block + noise around 0: 95% of the intervals hold it, but not those over seeds."""
    draw = random.Random(0)
    held = {"seeds": 0, "both": 0}
    for _ in range(400):
        blocks = [draw.gauss(0, 1) for _ in range(16)]
        seeds = [draw.gauss(0, 0.05) for _ in range(4)]
        losses = [[seed + block + draw.gauss(0, 0.1) for block in blocks] for seed in seeds]
        by_seeds, both = over_seeds([sum(row) / 16 for row in losses]), crossed(losses)
        held["seeds"] += by_seeds.low <= 0 <= by_seeds.high
        held["both"] += both.low <= 0 <= both.high
        assert both.mean == pytest.approx(by_seeds.mean)
    assert held["both"] >= 0.94 * 400
    assert held["seeds"] < 0.5 * 400


def test_the_headline_says_how_many_seeds_there_are_and_who_is_best_inside() -> None:
    runs = [run("rotary", [[1.0] * 4, [3.0] * 4]), run("alibi", [[1.05] * 4, [1.05] * 4])]
    again = [replace(one, plan=replace(one.plan, seed=1)) for one in runs]
    inside = "Within the trained length, RoPE has the lowest perplexity."
    headline = f"At 2× the trained length, ALiBi holds on language. {inside}"
    assert words.answer([summarise(LANGUAGE, runs)]) == f"{headline} One seed."
    assert words.answer([summarise(LANGUAGE, [*runs, *again])]) == f"{headline} 2 seeds."
    assert words.answer([summarise(LANGUAGE, runs, name) for name in ("a", "b")]) == (
        "At 2× the trained length, ALiBi holds on a; ALiBi holds on b. "
        f"{inside[:-1]} on a. {inside[:-1]} on b. One seed."
    )


def test_seeds_that_agree_leave_the_spread_of_the_text() -> None:
    blocks = [1.0, 1.5, 2.0, 2.5]
    alone, both = crossed([blocks]), crossed([blocks, blocks, blocks])
    assert (both.mean, both.low, both.high) == pytest.approx((alone.mean, alone.low, alone.high))
    assert both.of == "seeds and blocks"


def rising(*rises: float) -> list[list[float]]:
    """Losses of 8 blocks that rise by so much, by a hundredth more or less."""
    return [[1.0 + rise + 0.01 * (-1) ** block for block in range(8)] for rise in (0.0, *rises)]


@pytest.mark.parametrize("others", [("alibi",), ("alibi", "rotary", "t5", "fire")])
def test_more_encodings_widen_the_difference_to_the_best(others: tuple[str, ...]) -> None:
    """Bonferroni: of m encodings each difference has an interval of 1 − 0.05 / m."""
    noisy = [[1.0] * 8, [1.3 + 0.1 * (-1) ** block for block in range(8)]]
    result = summarise(LANGUAGE, [run("nope", rising(0.0)), *(run(encoding, noisy) for encoding in others)])
    gap = next(row.to_best for row in result.rows if row.encoding == "alibi")
    expected = paired(noisy[1], rising(0.0)[1], 1 - 0.05 / (1 + len(others)))
    assert (gap.low, gap.high) == pytest.approx((expected.low, expected.high))


def test_the_effective_length_ends_where_an_encoding_no_longer_holds() -> None:
    runs = [run("rotary", rising(0.01, 0.2, 0.5)), run("alibi", rising(0.0, 0.0, 0.0))]
    result = summarise(LANGUAGE, runs)
    lengths = {row.encoding: effective_length(result, row) for row in result.rows}
    assert {name: str(length) for name, length in lengths.items()} == {"alibi": "at least 512", "rotary": "128"}
    for row in result.rows:
        length = lengths[row.encoding]
        assert (length.low == 512) is (result.standing(row) == "holds")


def test_an_encoding_without_a_value_past_some_length_reaches_no_further() -> None:
    """A learned table, and a loss that is not finite: "at least" is for tests that end before the limit."""
    learned, broken = run("learned", rising(0.0)), run("rotary", [*rising(0.0), [math.nan] * 8, [math.nan] * 8])
    result = summarise(LANGUAGE, [learned, broken, run("alibi", rising(0.0, 0.0, 0.0))])
    lengths = {row.encoding: str(effective_length(result, row)) for row in result.rows}
    assert lengths == {"alibi": "at least 512", "learned": "128", "rotary": "128"}


def test_what_no_run_learned_has_no_effective_length() -> None:
    result = summarise(LANGUAGE, [run("rotary", [[2.9] * 4, [2.9] * 4])])
    assert effective_length(result, result.rows[0]) is None
    assert words.effective(result, result.rows[0]) == (words.NOTHING, "")
