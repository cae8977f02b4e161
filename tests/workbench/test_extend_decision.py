"""What an extension decides: nothing, cutting or a change, and the same in title, sentence, JSON and patch."""

import json
import math
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from posenc.pictures.wire import alone
from posenc.scaling import Default
from posenc.workbench.extended import config_patch
from posenc.workbench.extension.decision import (
    CHANGES,
    ERROR,
    MARGIN,
    SAME,
    Candidate,
    Extension,
)
from posenc.workbench.extension.methods import Method, methods
from posenc.workbench.extension.scoring import Scoring
from posenc.workbench.report.extension import (
    answer,
    as_json,
    bands,
    caption,
    headline,
    lengths,
    over_positions,
    table,
    write,
)
from posenc.workbench.run.plan import Run
from posenc.workbench.study.statistics import paired
from support.extensions import TEXT, made

NAMES = ("none", "linear", "ntk", "yarn", "llama3", "dca")
MODEL: Any = SimpleNamespace(patch=lambda scaling, length: {"scaling": scaling, "length": length})
"""A pretrained model whose config gets what it is told."""
TUNED = Scoring(
    model="m", method="", scaling="", text_sha256="", documents=(), length=0, buckets=0, dtype="", steps=9
)


def test_cutting_beats_a_scaling_that_beats_nothing(tmp_path: Path) -> None:
    """A transformer of `compare` at four times its length: YaRN 2.41, its last 128 bytes alone 2.30."""
    found = made(none=[2, 2, 4, 4, 4, 4], yarn=[2.1, 2.1, 2.41, 2.41, 2.41, 2.41], window=[2.3])
    assert headline(found) == "Do not extend: cut to the last 16 tokens"
    assert answer(found) == (
        "Loss on the last 16 tokens, in nats per token over 4 documents of text: 2.30 when cut to the last 16 "
        "tokens; 2.41 with YaRN; 4.00 with no scaling. The method to use is significantly better than changing "
        "nothing (−1.700, −1.700 … −1.700). No other change is significantly better, by more than 0.005 nats, than "
        "cutting."
    )
    page = write(replace(found, runs=(Run(None, (), 3.0, 0, 0.0),)), tmp_path, "posenc extend x", None).read_text()
    assert "<h1>Do not extend: cut to the last 16 tokens</h1>" in page
    assert "config.json" not in page
    assert "3 s of scoring" in page
    verdict = "against the method to use"
    assert f'<th scope="col" class="words">{verdict}</th>' in page
    console = Console(file=StringIO(), width=80)
    console.print(table(found))
    printed = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert " ".join(line[-10:].strip() for line in printed if line[:6] in (" " * 6, "method")) == verdict
    assert "16 positions minus that of the method to use (cut to the last 16 tokens): <i>as good</i> if" in page
    assert "48 tokens, one after another, from the start of the whole text of text;" in page
    held_out = write(replace(found, held_out=True), tmp_path, "", None).read_text()
    assert "from the start of the held-out part of text, on which the model was not trained;" in held_out


def test_a_change_that_is_better_than_nothing_but_not_than_cutting_is_counted() -> None:
    found = made(none=[2, 2, *[2.1] * 4], yarn=[2, 2, *[2.07] * 4], window=[2.11])
    noise = torch.tensor([-0.5, -0.1, 0.1, 0.5], dtype=torch.float64)[:, None]
    found = replace(found, window=found.window + noise)
    assert found.chosen is found.unchanged
    assert found.decided
    assert answer(found).endswith(
        "1 other change is significantly better, by more than 0.005 nats, than changing nothing, but not better "
        "than every alternative."
    )


def test_a_scaling_that_gains_nothing_changes_no_config() -> None:
    """A study at twice its length: no scaling 4.078 and YaRN 4.077, at no cost."""
    found = made(none=[2, 2, *[4.078] * 4], yarn=[1.998, 1.998, *[4.077] * 4], window=[5])
    assert (
        headline(found)
        == "Change nothing to read 48 tokens: the model is as good with no scaling as with any change"
    )


def test_a_scaling_that_gains_more_than_cutting_is_used() -> None:
    found = made(
        none=[2, 2, 3, 5, 7, 7],
        linear=[3, 3, 3, 3, 3, 3],
        ntk=[2.01, 2.01, 2, 2, 2.5, 4],
        yarn=[2.3, 2.3, 2, 2, 2, 2],
        llama3=[2.1, 2.1, 2, 2, 2.002, 2.002],
        window=[2.5],
    )
    assert [c.name for c in found.candidates] == ["yarn", "llama3", "cut", "linear", "ntk", "none"]
    assert [found.standing(c) for c in found.candidates] == ["as good", "use this", *["worse"] * 4]
    assert found.cost(found.chosen).mean == pytest.approx(0.1)  # less than YaRN's, at the same loss
    assert headline(found) == "Use Llama 3 to read 48 tokens"
    said = answer(found)
    assert "2.00 with Llama 3; 2.00 with YaRN; 2.50 when cut to the last 16 tokens; 7.00 with no scaling." in said
    assert "than cutting (−0.498, −0.498 … −0.498). Loss on the first 16 tokens changes by +0.100" in said
    assert config_patch(MODEL, found) == {"scaling": found.chosen.method.scaling, "length": 48}


@pytest.mark.parametrize("documents", [1, 2])
def test_few_documents_that_decide_nothing_are_undecided_in_the_headline(documents: int) -> None:
    found = made(none=[1, 1, 4, 4, 4, 4], yarn=[1, 1, 3, 3, 3, 3], window=[3.5])
    noise = torch.tensor([[-0.4], [0.4]], dtype=torch.float64)[
        :documents
    ]  # of one method, so that it does not cancel
    none, yarn = (replace(c, losses=c.losses[:documents]) for c in found.curves)
    few = replace(found, curves=(replace(none, losses=none.losses + noise), yarn), window=found.window[:documents])
    number = "1 document" if documents == 1 else "2 documents"
    cheapest = "May be better: cut to the last 16 tokens; and 1 more"
    assert headline(few) == f"Undecided with {number}. For now: no scaling. {cheapest}"
    assert answer(few).startswith(f"Loss on the last 16 tokens, in nats per token over {number} of text: ")
    assert answer(few).endswith("use a larger --documents.")
    short = replace(few, exhausted=True)  # by a text that has no more
    assert answer(short).endswith("this text has no further documents, so use a smaller --to or a longer text.")
    assert lengths(short).endswith("this text has no further documents, so use a smaller --to or a longer text.")


def test_two_documents_do_not_hide_what_is_plainly_better() -> None:
    found = made(none=[1, 1, 4, 4, 4, 4], yarn=[1, 1, 1.2, 1.2, 1.2, 1.2], window=[2])
    curves = tuple(replace(c, losses=c.losses[:2]) for c in found.curves)
    assert headline(replace(found, curves=curves, window=found.window[:2])) == "Use YaRN to read 48 tokens"


def test_what_chance_may_have_done_is_not_called_nothing() -> None:
    noise = torch.tensor([-3.0, -1.0, 1.0, 3.0], dtype=torch.float64)[:, None]
    found = made(none=[1, 1, 4, 4, 4, 4], yarn=[1.1, 1.1, 3, 3, 3, 3], window=[4])
    none, yarn = found.curves
    unsure = replace(found, curves=(replace(none, losses=none.losses + noise), yarn))
    assert headline(unsure) == "Undecided with 4 documents. For now: no scaling. May be better: YaRN"
    assert "Undecided: YaRN, compared with no scaling (−1.000, " in answer(unsure)


def test_the_scaling_that_a_model_was_configured_with_is_no_change() -> None:
    found = made(none=[2, 2, 9, 9, 9, 9], yarn=[2, 2, 3, 3, 3, 3], window=[4])
    own = replace(found.curves[1].method, name="own", label="the config's scaling")
    stated = replace(found, curves=(*found.curves, Candidate(own, found.curves[1].losses)))
    assert (
        headline(stated)
        == "Change nothing to read 48 tokens: the model is as good with the config's scaling as with any change"
    )
    assert {c.name: stated.change(c) for c in stated.candidates} == {
        "own": "nothing",
        "cut": "cut",
        "yarn": "config",
        "none": "config",
    }


def test_a_fine_tune_is_a_change_among_others() -> None:
    found = made(none=[2, 2, 5, 5, 5, 5], yarn=[2, 2, 3, 3, 3, 3], window=[4])
    none, yarn = found.curves

    def tuned(curve: Candidate, gain: float) -> Candidate:
        return Candidate(curve.method, curve.losses - gain, TUNED, window=found.window)

    small = replace(found, finetune=9, curves=(none, yarn, tuned(none, 1), tuned(yarn, SAME / 2)))
    assert headline(small) == "Use YaRN to read 48 tokens"
    large = replace(found, finetune=9, curves=(none, yarn, tuned(none, 1), tuned(yarn, 1)))
    assert headline(large) == "Fine-tune and use YaRN to read 48 tokens"
    assert "The method to use is significantly better than cutting after the same tuning (−2.000, " in answer(large)


def test_what_training_alone_gives_is_credited_to_no_method() -> None:
    """A study at four times its length: cut 2.100, a tuned remapping 2.063, its weights on the cut text 2.065."""
    found = made(none=[2, 2, 5, 5, 5, 5], dca=[2, 2, 2.14, 2.14, 2.14, 2.14], window=[2.1])
    none, dca = found.curves

    def tuned(method: Method, whole: float, cut: float) -> Candidate:
        noise = found.window - found.window.mean()
        return Candidate(method, none.losses * 0 + whole + noise[:, :1], TUNED, window=cut + noise)

    curves = (none, dca, tuned(none.method, 2.07, 2.066), tuned(dca.method, 2.063, 2.065))
    found = replace(found, finetune=9, curves=curves)
    assert headline(found) == "Do not extend: fine-tune, then cut to the last 16 tokens"
    assert answer(found) == (
        "Loss on the last 16 tokens, in nats per token over 4 documents of text: 2.07 with no scaling, tuned and "
        "cut; 2.06 with DCA, tuned; 2.10 when cut to the last 16 tokens; 5.00 with no scaling. The method "
        "to use is significantly better than changing nothing (−2.934, −2.934 … −2.934). The method to use is "
        "significantly better than cutting (−0.034, −0.034 … −0.034). Loss on the first 16 tokens changes by "
        "+0.070, 0.070 … 0.070. No other change is significantly better, by more than 0.005 nats, than no scaling, "
        "tuned and cut."
    )
    gaps = {each["label"]: each["to_cut"]["mean"] for each in as_json(found)["candidates"]}
    assert gaps["DCA, tuned"] == pytest.approx(-0.002)  # the same weights on the cut text
    assert gaps["DCA, tuned and cut"] == pytest.approx(-0.035)


def test_what_is_undecided_names_the_cheapest_change_and_what_to_do_meanwhile() -> None:
    found = made(none=[2, 2, 5, 5, 5, 5], yarn=[2, 2, 3, 3, 3, 3], window=[2.1])
    none, yarn = found.curves
    noise = torch.tensor([-0.3, -0.1, 0.1, 0.3], dtype=torch.float64)[:, None]
    tuned = [
        Candidate(
            c.method, none.losses * 0 + found.window[:, :1] + noise - gain, TUNED, window=found.window + noise
        )
        for c, gain in ((none, 0.01), (yarn, 0.02))
    ]
    unsure = replace(found, finetune=9, curves=(none, yarn, *tuned))
    assert headline(unsure) == (
        "Undecided with 4 documents. For now: cut to the last 16 tokens. May be better: no scaling, tuned and cut; "
        "and 3 more"
    )


def drawn(generator: torch.Generator) -> Extension:
    """Losses as any study may have them: gains, costs and noise of every size, some not finite, some tuned."""

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand(1, generator=generator, dtype=torch.float64))

    def chance(share: float) -> bool:
        return uniform(0, 1) < share

    documents = 1 + int(uniform(0, 10))
    own = torch.randn(documents, 1, generator=generator, dtype=torch.float64)
    layer = methods(NAMES, Default(), 16, 3.0)
    scale = 10 ** uniform(-3, 0.5)
    curves, lost = [], uniform(-scale, scale)  # what every tuned model loses on the cut text
    for tuned in (False, *[True] * chance(0.5)):
        for method in (layer[0], *(named for named in layer[1:] if chance(0.5))):
            noise = torch.randn(documents, 6, generator=generator, dtype=torch.float64) * 10 ** uniform(-4, 0)
            losses = own + noise + torch.tensor([0, 0, 0, 0, 1, 1]) * uniform(-scale, scale)
            if chance(0.03):
                losses[0, int(uniform(0, 6))] = math.inf
            noise = torch.randn(documents, 2, generator=generator, dtype=torch.float64) * 10 ** uniform(-4, 0)
            cut = own + noise + lost + uniform(-scale, scale) / 4 if tuned else None
            curves.append(Candidate(method, losses, TUNED if tuned else None, window=cut))
    noise = torch.randn(documents, 2, generator=generator, dtype=torch.float64) * 10 ** uniform(-4, 0)
    window = own + noise + uniform(-scale, scale)
    return Extension("a model", "token", 16, 48, 8, tuple(curves), window, TEXT, 9 * curves[-1].tuned)


@pytest.mark.parametrize("tables", [250, pytest.param(2000, marks=pytest.mark.slow)])
def test_of_drawn_tables_none_is_advised_what_loses(tables: int) -> None:
    """Title, `use` and patch name one candidate; a change surely gains over nothing and over cutting.

    A tuned method that reads the whole text surely gains over every tuned model that reads the cut one.
    """
    generator, seen = torch.Generator().manual_seed(7), set[str]()
    for number in range(tables):
        found = drawn(generator)
        chosen, change, heading = found.chosen, found.change(found.chosen), headline(found)
        seen.add(change if found.decided else "undecided")
        stretched = chosen.tuned and not chosen.cut
        for other in (found.unchanged, *(cut for cut in found.cuts.values() if stretched or not cut.tuned)):
            if stretched or CHANGES.index(found.change(other)) < CHANGES.index(change):
                gap = paired(found.by_length[chosen][-1], found.by_length[other][-1])
                assert not found.finite(other) or gap.high < 0
        for other in found.candidates:  # and nothing is missed
            cuts = found.cuts.values() if other.tuned and not other.cut else [found.cut]
            rivals = [it for it in (chosen, found.unchanged, *cuts) if it is not other and found.finite(it)]
            gaps = [found.gap(other, rival) for rival in rivals]
            assert other is chosen or not found.finite(other) or not all(gap.high < -MARGIN for gap in gaps)
        names = {"nothing": "Change nothing", "cut": f"Do not extend: {chosen.label}"}
        label = chosen.method.label
        advice = names.get(change, f"{'Fine-tune and use' if 'w' in change else 'Use'} {label} to read")
        if chosen.tuned and chosen.cut:
            advice = f"Do not extend: fine-tune, then {found.cut.label}"
        if not found.finite(chosen):
            advice = "No method reads"
        elif not found.decided:
            advice = f"Undecided with {len(found.window)} document"
            assert f"For now: {chosen.label}. May be better: {found.open[0].label}" in heading
        assert heading.startswith(advice)
        said = re.search(r"(No|\d+) other changes? (?:is|are) significantly better, by more than", answer(found))
        assert bool(said) == (found.decided and (chosen is found.unchanged or bool(chosen.cut)))
        others = [found.gap(it, chosen) for it in found.candidates if it is not chosen and found.finite(it)]
        better = sum(gap.high < 0 and gap.mean < -SAME for gap in others)
        assert not said or said[1] == str(better or "No")
        if number % 10 == 0:  # which also asks how far each method reads
            read = as_json(found)
            assert (read["use"], read["change"], read["decided"]) == (chosen.name, change, found.decided)
            assert "NaN" not in json.dumps(read)
            assert answer(found)
        patch = config_patch(MODEL, found)
        assert (patch or {}).get("scaling") == (chosen.method.scaling if change == "config" else None)
    assert seen == {*CHANGES, "undecided"}


@pytest.mark.slow
@pytest.mark.parametrize(("documents", "noise"), [(2, 0.05), (3, 0.2), (4, 0.02), (8, 0.05), (8, 0.2), (16, 0.05)])
def test_at_most_5_of_100_studies_change_what_gains_nothing(documents: int, noise: float) -> None:
    """All candidates are truly equal; what is chosen over nothing is chance."""
    generator, wrong, draws = torch.Generator().manual_seed(documents), 0, 1000
    flat = made(**{name: [2.0] * 6 for name in NAMES}, window=[2.0])
    for _ in range(draws):
        curves = [
            replace(c, losses=noise * torch.randn(documents, 1, generator=generator).double().expand(-1, 6))
            for c in flat.curves
        ]
        window = noise * torch.randn(documents, 1, generator=generator).double().expand(-1, 2)
        wrong += (drawn := replace(flat, curves=tuple(curves), window=window)).chosen is not drawn.unchanged
    assert wrong <= ERROR * draws


@pytest.mark.slow
def test_three_margins_are_seen_with_eight_documents() -> None:
    """With a spread of one margin from document to document, in at least 90 of 100 draws."""
    generator, seen = torch.Generator().manual_seed(0), 0
    flat = made(**{name: [2.0] * 6 for name in NAMES}, window=[2.0])
    for _ in range(1000):
        spread = MARGIN / 2**0.5 * torch.randn(8, len(flat.curves), generator=generator).double()
        truth = 3 * MARGIN * torch.tensor([c.method.name != "yarn" for c in flat.curves]).double()
        curves = [
            replace(c, losses=x[:, None].expand(-1, 6))
            for c, x in zip(flat.curves, (spread + truth).T, strict=True)
        ]
        window = 3 * MARGIN + MARGIN / 2**0.5 * torch.randn(8, 2, generator=generator).double()
        seen += replace(flat, curves=tuple(curves), window=window).chosen.method.name == "yarn"
    assert seen >= 900


STRETCHED = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])


def test_the_far_end_is_never_inside_the_trained_length() -> None:
    short = tuple(Candidate(c.method, c.losses[:, :3]) for c in STRETCHED.curves)
    near = Extension("a model", "token", 16, 24, 8, short, STRETCHED.window[:, :1], TEXT)
    assert [near.far, STRETCHED.far] == [1, 2]
    assert near.loss(near.unchanged) == pytest.approx(3)
    assert caption(STRETCHED).startswith("nats per token on the last 16 before each length, lower")
    assert caption(near).startswith("nats per token on the last 16 before each length (8 before 24), lower")


def test_a_trained_length_that_quarters_do_not_divide_is_not_the_length_of_the_means() -> None:
    """Of 18 positions, 16 are in whole buckets."""
    odd = replace(made(none=[2, 2, 3, 5, 7, 7], yarn=[3, 3, 2, 2, 2, 2], window=[4]), original_length=18)
    assert "Loss on the first 16 tokens changes by" in answer(odd)
    assert caption(odd) == "nats per token on the last 16 before each length, lower is better; trained to 18"


def test_the_view_marks_the_trained_length_and_the_choice() -> None:
    view = over_positions(STRETCHED)
    assert view.title == headline(STRETCHED)
    panel = view.panels[0]
    assert panel.marks == ((16.0, "trained to here"),)
    assert [line.encoding for line in panel.lines] == ["nope", "rotary", ""]
    assert panel.x.values[:2] == (4.0, 12.0)


def test_cut_text_is_drawn_only_where_it_is_compared() -> None:
    found = made(none=[2, 2, 4, 4, 4, 4], yarn=[2.1, 2.1, 2.41, 2.41, 2.41, 2.25], window=[2.2, 2.4])
    panel = over_positions(found).panels[0]
    assert panel.levels == ()
    cut = panel.lines[-1]
    assert (cut.name, cut.encoding) == ("cut to the last 16 tokens", "rotary")
    assert cut.values.isnan().tolist() == [True] * 4 + [False] * 2
    assert float(cut.values[-2:].mean()) == pytest.approx(found.loss(found.cut))


def test_the_caption_names_the_curves_that_have_a_band(tmp_path: Path) -> None:
    generator, seen = torch.Generator().manual_seed(3), set[int]()
    for number in range(60):
        found = drawn(generator)
        for tuned in {curve.tuned for curve in found.curves}:
            view = over_positions(found, tuned=tuned)
            (panel,) = json.loads(json.dumps(alone(view)))["panels"]
            shaded = [
                line for line in panel["lines"] if line["low"] and sum(y is not None for y in line["low"]) > 1
            ]
            assert bands(view) == [line["name"] for line in shaded]
            seen.add(len(shaded))
            if number % 20 == 0:
                names = f" Shaded, with 95% intervals over documents: {'; '.join(bands(view))}."
                page = write(found, tmp_path, "", None).read_text()
                assert f" positions.{names if shaded else ''}</figcaption>" in page
    assert seen == {0, 1, 2}
