"""Which method an extension chooses, and in what words: by paired differences, as far as documents can tell."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.workbench.extend.curves import Extension, MethodLosses
from posenc.workbench.extend.verdict import judge
from posenc.workbench.report.extension import answer, over_positions, write
from support.extensions import TEXT, made


def test_the_choice_is_best_at_the_far_end_and_among_equals_cheapest_inside() -> None:
    found = made(
        none=[2, 2, 3, 5, 7, 7],
        linear=[3, 3, 3, 3, 3, 3],
        ntk=[2.01, 2.01, 2, 2, 2.5, 4],
        yarn=[2.3, 2.3, 2, 2, 2, 2],
        llama3=[2.1, 2.1, 2, 2, 2.002, 2.002],
        window=[2.5],
    )
    verdict = judge(found)
    assert [line.curve.method.name for line in verdict.scores] == ["yarn", "llama3", "linear", "ntk", "none"]
    assert verdict.chosen.curve.method.name == "llama3"
    assert verdict.scores[2].to_best is not None
    assert verdict.scores[2].to_best.mean == pytest.approx(1)
    assert verdict.scores[2].to_best.low == pytest.approx(1)  # paired: the documents' spread cancels
    assert verdict.chosen.cost.mean == pytest.approx(0.1)
    said = answer(found, verdict)
    assert [score.standing for score in verdict.scores] == ["best", "as good", "worse", "worse", "worse"]
    assert said.startswith(
        "YaRN reads the end best, by 0.00, surely less than 0.05, and costs short text +0.300. Use Llama 3 to "
        "reach 48: the last 16 positions lose 2.00, 7.00 without scaling;"
    )
    assert "the first 16 pay +0.100 for it (4 documents, nats per token)" in said
    assert said.endswith("The longer context earns 0.50 over the last 16 tokens alone.")


def test_other_answers() -> None:
    flat = made(none=[2, 2, 2, 2, 2, 2], linear=[3, 3, 3, 3, 3, 3], window=[2])
    assert judge(flat).chosen.curve.method.name == "none"
    assert answer(flat, judge(flat)).startswith("No scaling is needed to reach 48")
    short = made(none=[2, 2, 6, 6, 6, 6], linear=[3, 3, 3, 3, 3, 3], window=[2])
    assert answer(short, judge(short)).endswith("cutting the context beats stretching it here.")
    even = made(none=[2, 2, 6, 6, 6, 6], linear=[3, 3, 3, 3, 3, 3], window=[3])
    assert answer(even, judge(even)).endswith("as well as from the last 16 tokens alone, not better.")


def test_one_document_has_no_interval_and_says_little() -> None:
    found = made(
        none=[2, 2, 6, 6, 6, 6], linear=[3, 3, 3, 3, 3, 3], yarn=[2, 2, 3.04, 3.04, 3.04, 3.04], window=[3.01]
    )
    curves = tuple(MethodLosses(c.method, c.losses[:1]) for c in found.curves)
    one = Extension("a model", "token", 16, 48, 8, curves, found.window[:1], TEXT)
    # 0.04 worse than linear, cheaper inside, and one document cannot tell that it is as good
    assert judge(one).chosen.curve.method.name == "linear"
    assert [score.standing for score in judge(one).scores] == ["best", "undecided", "undecided"]
    said = answer(one, judge(one))
    assert (
        "Whether YaRN is as good, which costs short text less, these documents cannot tell (+0.040): score more "
        "--documents." in said
    )
    assert "no scaling is as good" not in said  # it is plainly worse
    assert said.endswith("as well as from the last 16 tokens alone, not better.")


def test_two_documents_do_not_hide_what_is_plainly_better() -> None:
    noise = torch.tensor([[-0.4], [0.4]], dtype=torch.float64)  # of one method alone, so that it does not cancel
    found = made(none=[1, 1, 4, 4, 4, 4], yarn=[1, 1, 1.2, 1.2, 1.2, 1.2], window=[1.2])
    none, yarn = (replace(c, losses=c.losses[:2]) for c in found.curves)
    two = replace(found, curves=(replace(none, losses=none.losses + noise), yarn), window=found.window[:2])
    assert judge(two).chosen.curve.method.name == "yarn"
    assert answer(two, judge(two)).startswith("Use YaRN to reach 48")


def test_what_chance_may_have_done_is_not_called_nothing() -> None:
    noise = torch.tensor([-3.0, -1.0, 1.0, 3.0], dtype=torch.float64)[:, None]
    found = made(none=[1, 1, 4, 4, 4, 4], yarn=[1.1, 1.1, 3, 3, 3, 3], window=[3])
    none, yarn = found.curves
    unsure = replace(found, curves=(replace(none, losses=none.losses + noise), yarn))
    said = answer(unsure, judge(unsure))
    assert said.startswith("Use YaRN to reach 48: the last 16 positions lose 3.00, 4.00 without scaling;")
    assert (
        "Whether no scaling is as good, which costs short text less, these documents cannot tell (+1.000)" in said
    )


def test_a_method_counts_as_good_only_where_its_difference_is_surely_small() -> None:
    found = made(none=[1, 1, 3.02, 3.02, 3.02, 3.02], yarn=[1.1, 1.1, 3, 3, 3, 3], window=[3])
    assert judge(found).chosen.curve.method.name == "none"
    assert answer(found, judge(found)).endswith("and YaRN loses 0.02 less, surely less than 0.05.")
    worse = made(none=[1, 1, 3.06, 3.06, 3.06, 3.06], yarn=[1.1, 1.1, 3, 3, 3, 3], window=[3])
    assert judge(worse).chosen.curve.method.name == "yarn"
    assert "cannot tell" not in answer(worse, judge(worse))


def test_more_documents_are_never_a_weaker_test() -> None:
    """Of a method that is 0.3 nats worse, documents drawn at random, however many: it is never as good."""
    found = made(none=[2, 2, 6, 6, 6, 6], ntk=[2, 2, 2.3, 2.3, 2.3, 2.3], yarn=[2.03, 2.03, 2, 2, 2, 2], window=[2])
    for seed in range(20):
        noise = 0.15 * torch.randn(64, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        curves = [replace(c, losses=c.losses[:1].repeat(64, 1)) for c in found.curves]
        curves = [replace(c, losses=c.losses + noise) if c.method.name == "ntk" else c for c in curves]
        for documents in (2, 3, 4, 8, 16, 64):
            some = tuple(replace(c, losses=c.losses[:documents]) for c in curves)
            chosen = judge(replace(found, curves=some, window=found.window[:1].repeat(documents))).chosen
            assert chosen.to_best is None, (seed, documents)


def test_the_far_end_is_never_inside_the_trained_length() -> None:
    found = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    short = tuple(MethodLosses(c.method, c.losses[:, :3]) for c in found.curves)
    near = Extension("a model", "token", 16, 24, 8, short, found.window, TEXT)
    assert [near.far, found.far] == [1, 2]
    assert judge(near).scores[-1].far.mean == pytest.approx(3)


def test_the_view_marks_the_trained_length_and_the_choice() -> None:
    found = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    panel = over_positions(found).panels[0]
    assert panel.marks == ((16.0, "trained to here"),)
    assert [line.encoding for line in panel.lines] == ["nope", "rotary"]
    assert panel.x.values[:2] == (4.0, 12.0)


def test_pages_without_a_patch(tmp_path: Path) -> None:
    found = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    page = write(found, tmp_path, "posenc extend x", 3.0, None).read_text()
    assert "config.json" not in page
    assert "3 s of scoring" in page
