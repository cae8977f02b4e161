"""Somebody's own class, named by text: it trains in workers, its source is in its id, reading imports nothing."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import posenc
from posenc.commands.app import app
from posenc.errors import InvalidArgument, PosencError, StudyError
from posenc.teaching.lab import results
from posenc.workbench import check_task
from posenc.workbench.custom_code import modules, source_hash
from posenc.workbench.notebook import Opened
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import read_study
from support.command_line import refusal
from support.custom import SOURCE, was_imported, write
from support.lab import reply
from support.studies import TINY, inline, python_text

SHORT = replace(TINY, tasks=("needle",), steps={"needle": 2})
SHAPE = {"width": 16, "heads": 4, "head_dim": 4, "num_positions": 24, "layers": 2}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The text of a class in a folder that Python finds."""
    monkeypatch.syspath_prepend(tmp_path)
    yield write(tmp_path)
    sys.modules.pop("log_distance", None)


@pytest.fixture
def typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Result]]:
    """Types a command of posenc in this folder, which Python itself has not on its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda words: CliRunner().invoke(app, words.split(), env={"COLUMNS": "200"})
    sys.modules.pop("log_distance", None)


@pytest.mark.usefixtures("typed_here")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class Mine(:\n    pass\n", "SyntaxError: invalid syntax"),
        ("\nimport nowhere_at_all\n", "No module named 'nowhere_at_all', line 2 of"),
        ("import posenc\n\n\nclass Mine(posenc.Encoding):\n    pass\n", "abstract class Mine"),
    ],
)
def test_one_that_cannot_be_made_is_one_sentence_with_its_line(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "not_made").mkdir()
    (tmp_path / "not_made/__init__.py").write_text(source)
    sentence = refusal(*["compare", "--encodings", "not_made:Mine", "--tasks", "needle"])
    sys.modules.pop("not_made", None)
    assert sentence.startswith("encoding 'not_made:Mine' cannot be created (")
    assert message in sentence


def test_reading_a_study_with_it_never_imports_it(
    own: str, tmp_path: Path, typed_here: Callable[[str], Result]
) -> None:
    study = replace(SHORT, encodings=(own,))
    with Ledger(tmp_path / "study", write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline)
        assert was_imported(tmp_path)
        sys.modules.pop("log_distance")
        again = Comparison(study, python_text(), ledger)
        assert again.missing == []
        assert [row.encoding for row in again.outcome().results[0].rows] == [own]
    sys.path.insert(0, str(tmp_path))
    assert own in typed_here("runs study").output
    results.use(tmp_path / "study")
    shown = reply("/api/curves", "task=needle")
    results.use(results.DEFAULT)
    assert shown.status == 200
    assert "has no run of rotary on the task 'language'" in str(typed_here("extend study --to 2x").exception)
    assert not was_imported(tmp_path)


def test_it_is_built_with_settings_and_in_parts(own: str) -> None:
    made = posenc.encoding(f"layers({own}(strength=0.5)*2 + nope)", **SHAPE)
    assert [part.name for part in made.children().__next__()] == ["log-distance", "nope"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LogDistance(strenght=2)", "unknown setting of log_distance:LogDistance 'strenght'"),
        ("Missing", "has no class 'Missing'; correct the name, which has the form my_module:MyEncoding"),
        ("Path", r"derive the class from posenc\.Encoding"),
    ],
)
@pytest.mark.usefixtures("own")
def test_what_is_no_class_or_setting_of_its_module_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        posenc.encoding(f"log_distance:{text}", **SHAPE)


def printed_command(page: Path) -> str:
    """Return the command under "Reproduce this study" on a page."""
    (command,) = re.findall("<pre>posenc (compare --config .*)</pre>", page.read_text())
    return f"{command} --launcher in-process"


def test_the_page_of_a_study_with_it_prints_a_command_that_repeats_the_study(
    tmp_path: Path, typed_here: Callable[[str], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results" / "study"
    own = write(tmp_path)
    given = f"--encodings {own},nope --tasks needle --steps 2 --answers 8 --lengths 1,2"
    assert typed_here(f"compare {given} --launcher in-process --output {folder}").exit_code == 0
    command = printed_command(folder / "report.html")
    assert "--config results/study/study.toml --output results/study/study " in command
    assert f"where Python finds {own}.</p>" in (folder / "report.html").read_text()
    done = typed_here(command)
    assert done.exit_code == 0, done.output
    assert "2 runs, 0 already done" in done.output
    assert (
        typed_here("compare --tasks needle --encodings nope --steps 2 --answers 8 --launcher in-process").exit_code
        == 0
    )
    page = tmp_path / "study" / "report.html"
    assert "Run the command in the page's folder.</p>" in page.read_text()
    monkeypatch.chdir(page.parent)
    assert typed_here(printed_command(page)).exit_code == 0
    assert (tmp_path / "study" / "study" / "report.html").exists()


@pytest.mark.parametrize("encoding", ["nowhere_at_all:Mine", "log_distance:LogDistance(strength=-1)"])
def test_a_refused_study_leaves_no_folder_and_takes_none(
    encoding: str, tmp_path: Path, typed_here: Callable[[str], Result]
) -> None:
    write(tmp_path)
    (tmp_path / "kept").mkdir()
    for folder in ("fresh", "kept"):
        words = f"compare --encodings {encoding} --tasks needle --launcher in-process --output {folder}"
        assert isinstance(typed_here(words).exception, PosencError)
        assert (tmp_path / folder).exists() == (folder == "kept")


def test_its_source_is_in_the_id_and_is_hashed_without_importing(own: str, tmp_path: Path) -> None:
    text = python_text()
    one = replace(SHORT, encodings=(own,))
    (before,) = one.plans(text)
    assert not was_imported(tmp_path)
    with (tmp_path / "log_distance.py").open("a") as file:
        file.write("import beside\n")
    (tmp_path / "beside.py").write_text("A = 1\n")
    (changed,) = one.plans(text)
    (tmp_path / "beside.py").write_text("A = 2\n")
    (beside,) = one.plans(text)
    assert len({before.id, changed.id, beside.id}) == 3
    assert before.encoding == changed.encoding == own
    package = tmp_path / "pack"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").touch()
    first = source_hash(["pack.deep:Mine"])
    (package / "deep" / "inner.py").write_text("raise SystemExit\n")
    assert source_hash(["pack.deep:Mine"]) != first
    assert modules(["pack.deep:Mine", own]) == (package, tmp_path / "log_distance.py", tmp_path / "beside.py")


def test_what_its_constructor_raises_is_one_sentence_and_its_cause(own: str, tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "study", write=True) as ledger,
        pytest.raises(
            StudyError, match=r"cannot be created \(ValueError: strength=-1 is below 0.*, line \d+ of"
        ) as refused,
    ):
        Comparison(replace(SHORT, encodings=(f"{own}(strength=-1)",)), python_text(), ledger).run(inline)
    assert isinstance(refused.value.__cause__, ValueError)


def test_a_run_that_its_code_fails_names_the_line(tmp_path: Path, typed_here: Callable[[str], Result]) -> None:
    own = write(tmp_path)
    given = f"compare --encodings {own}(strength=13) --tasks needle --steps 2 --answers 8 --launcher in-process"
    done = typed_here(given)
    line = 1 + SOURCE.strip().split("\n").index('            raise ArithmeticError("thirteen")')
    assert f"failed: ArithmeticError: thirteen, line {line} of {tmp_path}/log_distance.py" in done.output
    assert "correct the causes above, then run the same command" in done.output
    with pytest.raises(InvalidArgument, match="unknown encoding 'log_distance'; did you mean 'log_distance:LogDi"):
        posenc.encoding("log_distance", **SHAPE)


GUIDE = Path(__file__).parents[2] / "docs" / "contributing" / "adding-a-task.md"
EARLIER = re.findall(r'^```python title="earlier.py"\n(.*?)^```$', GUIDE.read_text(), re.MULTILINE | re.DOTALL)[0]


@pytest.fixture
def own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The task of the guide, in a folder that Python finds; whenever it is imported it says so."""
    monkeypatch.syspath_prepend(tmp_path)
    mark = "\n\nfrom pathlib import Path\n\n(Path(__file__).parent / 'imported').touch()\n"
    (tmp_path / "earlier.py").write_text(EARLIER + mark)
    sys.modules.pop("earlier", None)  # as the docs' tests may have left it
    yield "earlier:Earlier"
    sys.modules.pop("earlier", None)


def test_a_custom_task_trains_beside_ours_and_its_study_is_read_without_it(
    own_task: str, tmp_path: Path, typed_here: Callable[[str], Result]
) -> None:
    (tmp_path / "study.toml").write_text(
        f'tasks = ["{own_task}", "needle"]\nencodings = ["nope"]\nlengths = [1, 2]\nanswers = 8\n'
        f'[steps]\n"{own_task}" = 3\nneedle = 2\n'
    )
    done = typed_here("compare --config study.toml --launcher in-process")
    assert done.exit_code == 0, done.output
    assert f"{own_task}: which symbol came four tokens earlier?" in " ".join(done.output.split())
    assert '<section id="earlier:Earlier">\n<h2>Earlier</h2>' in (tmp_path / "study/report.html").read_text()
    assert 'id="figure-earlier.Earlier"' in (tmp_path / "study/report.html").read_text()
    assert read_study(config=tmp_path / "study/study.toml").steps == {own_task: 3, "needle": 2}
    sys.modules.pop("earlier")
    (tmp_path / "earlier.py").unlink()
    (tmp_path / "imported").unlink()
    assert own_task in typed_here("runs study").output
    results = Opened(tmp_path / "study").results
    assert list(results) == [own_task, "needle"]
    task = results[own_task].task
    assert (task.chance, task.gate, task.measure) == (1 / 16, 0.98, "accuracy")
    assert list(Opened(tmp_path / "study").verdicts["task"]) == [own_task, "needle"]


def test_the_source_of_a_custom_task_is_in_the_id_and_goes_to_workers(own_task: str, tmp_path: Path) -> None:
    text, study = python_text(), replace(SHORT, encodings=("nope",), tasks=(own_task, "needle"))
    before = {plan.task: plan for plan in study.plans(text)}
    assert before["needle"].source == ""
    with (tmp_path / "earlier.py").open("a") as file:
        file.write("A = 1\n")
    after = {plan.task: plan for plan in study.plans(text)}
    assert after["needle"].id == before["needle"].id
    assert after[own_task].id != before[own_task].id
    sent = {}

    def caught(jobs, done, report) -> None:  # type: ignore[no-untyped-def]
        sent.update({job.plan.task: job.modules for job in jobs})

    with Ledger(tmp_path / "study", write=True) as ledger:
        Comparison(study, text, ledger).run(caught)
    assert sent == {own_task: (tmp_path / "earlier.py",), "needle": ()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("chance = 1 / 16", "shift = 4"),
            "task earlier:Earlier lacks chance, which its class must set, as in: chance = …",
        ),
        (("def draw", "def drawn"), "task earlier:Earlier lacks draw, which its class must implement"),
        (("(DrawnTask)", ""), "earlier:Earlier is not a posenc.workbench.tasks.Task; derive the class from"),
        (
            ("import torch\n", "import nowhere_at_all\n"),
            r"cannot be created (ModuleNotFoundError: No module named 'now",
        ),
        (
            ("tokens[:, :-4]", "tokens[:, :-5]"),
            "task 'earlier:Earlier' cannot be created (RuntimeError: The expanded",
        ),
        (("steps = 300", "steps = 2.5"), "steps of task earlier:Earlier=2.5 must be a whole number, 1 … 1,000"),
        (("steps = 300", "measure = 'perplexity'"), "unknown measure of task earlier:Earlier 'perplexity'"),
        (("steps = 300", "train_length = 3"), "train_length=3 of Earlier must be at least 5"),
    ],
)
@pytest.mark.usefixtures("typed_here")
def test_a_custom_task_that_cannot_be_made_is_one_sentence(
    own_task: str, change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "earlier.py").write_text(EARLIER.replace(*change))
    assert message in refusal(*f"compare --encodings nope --tasks {own_task} --launcher in-process".split())


def test_the_guides_task_keeps_the_laws(own_task: str) -> None:
    report = check_task(own_task)
    assert report.ok, report
    assert report.name == own_task
    for name in ("earlier:Later", "earlier"):
        with pytest.raises(InvalidArgument, match="my_module:MyTask"):
            check_task(name)
