"""extend on a study that compare made: the trained rotary model is found, loaded, scored and tuned."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import posenc
from posenc.errors import InvalidArgument, StudyError
from posenc.scaling import Default
from posenc.workbench.extension.methods import REMAPPED, methods, remappings
from posenc.workbench.extension.models import open_model
from posenc.workbench.run.checkpoint import path_of
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Run
from posenc.workbench.study.study import as_toml
from posenc.workbench.tasks.text import load
from support.command_line import said
from support.studies import TINY, python_text, ran, runs_in


def run_of(study: Path) -> Run:
    return next(run for run in runs_in(study) if run.plan.name == "language/rotary/seed 0")


def test_the_trained_model_is_found(shared_study: Path) -> None:
    model, data, text = open_model(shared_study, None, "cpu", "float32")
    assert (model.original_length, model.unit, model.scaling) == (128, "byte", Default())
    assert len(data) == len(text.validation)
    assert model.learning_rate == model.copied("a copy").learning_rate == 6e-4 / 8


def test_the_command_scores_and_tunes_under_scalings_and_remappings(shared_study: Path, tmp_path: Path) -> None:
    """Scored and tuned by name; near text is read as before, and far text by every one of them differently."""
    words = "--to 2x --documents 1 --methods yarn,dca,self-extend --finetune 1"
    output = said("extend", shared_study, *words.split(), "--output", tmp_path / "out")
    scored, _, tuned = output.partition("After 1 step of tuning")
    assert all(f"\n{name} " in scored and f"\n{name}, tuned " in tuned for name in ("YaRN", "DCA", "Self-Extend"))
    assert "language/rotary/seed 0 of " in scored
    page = (tmp_path / "out" / "report.html").read_text()
    assert "After 1 step of tuning" in page
    assert "1 of 256 bytes, one after another, from the start of the held-out part of " in page
    assert not (tmp_path / "out" / "config-patch.json").exists()
    model, data, _ = open_model(shared_study, None, "cpu", "float32")
    tokens = model.encode(data)[:257]
    chosen = methods(("none", *REMAPPED), model.scaling, 128, 2.0)
    losses = {method.name: model.losses(tokens, method.positions(model, 256)) for method in chosen}
    for name in REMAPPED:
        torch.testing.assert_close(losses[name][:32], losses["none"][:32], rtol=0, atol=1e-5)
    assert len({float(one[128:].mean()) for one in losses.values()}) == len(chosen)


@pytest.mark.parametrize("factor", [1.0, 1.5, 2.0, 7.3, 64.0, 1e9])
@pytest.mark.parametrize("trained", [16, 128, 2048, 8192])
def test_remappings_reach_the_length(trained: int, factor: float) -> None:
    length = math.ceil(factor * trained)
    for name, text in remappings(trained, length).items():
        reached = posenc.encoding(text, head_dim=8).longest(trained)
        assert reached >= (min(length, 2 * trained - min(128, trained // 8)) if name == "string" else length), text


def test_only_layers_that_are_stretched_are_remapped() -> None:
    layers = posenc.encoding("layers(local(rotary, window=8)*2 + rotary(base=1000000) + nope)", head_dim=8)
    changed = posenc.remap.remapped(layers, "rerope(rotary, window=4)")
    assert [changed.layer(i).name for i in range(4)] == ["rotary", "rotary", "rerope", "nope"]
    with pytest.raises(InvalidArgument, match=r"expected a posenc\.Rotary"):
        posenc.remap.remapped(posenc.ALiBi(4), "rerope(rotary, window=4)")


def test_the_text_and_the_run_are_the_studys_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its study.toml, whose paths count from it, wherever the command is typed; a --text goes before it."""
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))
    book, folder = tmp_path / "book.txt", tmp_path / "deep" / "study"
    book.write_bytes(python_text().train.numpy().tobytes()[:300_000])
    asked = replace(TINY, encodings=("rotary",), tasks=("language",), text=book)
    ran(asked, folder)
    (run,) = runs_in(folder)
    (folder / "study.toml").write_text(as_toml(asked, folder))
    monkeypatch.chdir(folder)
    for path in (folder, Path()):
        model, data, text = open_model(path, None, "cpu", "float32")
        assert (text.name, text.sha256) == ("book.txt", load(book).sha256)
        assert data == text.validation.numpy().tobytes()
        assert (model.name, model.identity) == (f"language/rotary/seed 0 of {path}", run.plan.id)
    later = tmp_path / "later.txt"  # the study goes on with another text
    later.write_bytes(book.read_bytes()[::-1])
    ran(replace(asked, text=later), folder)
    for text in (book, later):
        assert ((opened := open_model(folder, text, "cpu", "float32"))[2].sha256, opened[0].name) == (
            load(text).sha256,
            f"language/rotary/seed 0, text_sha256 {load(text).sha256[:12]} of {folder}",
        )
    book.unlink()
    with pytest.raises(StudyError, match=r"text '.*book.txt' cannot be read"):
        open_model(folder, None, "cpu", "float32")


def test_a_study_of_another_machine_is_read_on_this_ones_device(shared_study: Path, tmp_path: Path) -> None:
    run = run_of(shared_study)
    there = replace(run.plan, device="cuda:7")
    with Ledger(tmp_path, write=True) as ledger:
        ledger.add(replace(run, plan=there))
    (tmp_path / "checkpoints").mkdir()
    shutil.copy(path_of(shared_study, run.plan), path_of(tmp_path, there))
    model, data, _ = open_model(tmp_path, None, "cpu", "float32")
    assert len(model.losses(model.encode(data[:33]), model.with_scaling(Default(), 32))) == 32


def test_what_cannot_serve(
    shared_study: Path, copied_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))
    other = tmp_path / "text.txt"
    other.write_bytes(b"another text " * 500)
    assert load(other).sha256 != python_text().sha256
    path_of(copied_study, run_of(copied_study).plan).write_bytes(b"cut")
    run = run_of(shared_study)
    with Ledger(cut := tmp_path / "cut", write=True) as ledger:
        ledger.add(replace(run, plan=replace(run.plan, tokenizer="0123456789abcdef")))
    with Ledger(empty := tmp_path / "empty", write=True) as ledger:
        ledger.add(replace(run, verdict="diverged: at step 3 the loss is 400"))
    for study, text, message in (
        (shared_study, other, r"not trained on the current content of 'text.txt'; pass or restore the text"),
        (copied_study, None, r"weights .* cannot be read .*; run posenc compare again"),
        (cut, None, r"cut' was trained with a tokenizer, .* --tokenizer bytes --output"),
        (empty, None, "has no run of rotary on the task 'language'"),
    ):
        with pytest.raises(StudyError, match=message):
            open_model(study, text, "cpu", "float32")
