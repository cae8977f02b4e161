"""The script's door: versions for a bug report, and one line where the command line's packages are missing."""

import contextlib
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import requires, version
from pathlib import Path

import pytest

from posenc.cli import main
from support.command_line import exit_status

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
WITHOUT = """
import runpy, sys
sys.modules["{}"] = None
sys.argv = ["posenc", *{}]
runpy.run_module("posenc")
"""
"""Runs the command as where a package is not installed."""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize(("package", "words"), [("typer", []), ("typer", ["--help"]), ("rich", ["compare"])])
def test_without_its_packages_the_command_says_how_to_install_them(package: str, words: list[str]) -> None:
    done = run(WITHOUT.format(package, words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"error: {package} is not installed; type: pip install 'posenc[cli]'\n"


def test_the_versions_need_no_package_of_the_command_line() -> None:
    done = run(WITHOUT.format("typer", ["--version"]))
    assert done.returncode == 0
    said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert said["posenc"] == version("posenc")
    assert said["torch"] == version("torch")
    assert said["python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["platform"]


def test_the_option_is_listed_and_goes_before_any_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["posenc", *words])
        with contextlib.suppress(SystemExit):
            main()
        return capsys.readouterr().out

    assert "--version" in command("--help")
    assert command("--version", "runs") == command("--version") != ""


@pytest.fixture
def listens_to_ctrl_c() -> Iterator[None]:
    """As where commands are typed: what a shell starts in the background ignores Ctrl-C, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listens_to_ctrl_c")
def test_what_ctrl_c_breaks_half_imported_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def half_imported() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AttributeError("module 'numpy' has no attribute 'minimum'") from None

    monkeypatch.setattr("posenc.commands.app.app", half_imported)
    assert (exit_status("verify"), capsys.readouterr().err) == (130, "stopped\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_command_line_runs_in_a_thread_of_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the main thread may handle signals."""
    monkeypatch.setattr(sys, "argv", ["posenc", "runs", "--help"])
    with ThreadPoolExecutor() as pool, pytest.raises(SystemExit) as ended:
        pool.submit(main).result()
    assert not ended.value.code


def test_a_terminal_without_the_signs_gets_question_marks() -> None:
    command = [sys.executable, "-m", "posenc", "compare", "--help"]
    narrow = {"PYTHONIOENCODING": "ascii", "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, env={**os.environ, **narrow})
    assert done.returncode == 0
    assert b"? the trained length" in done.stdout


def test_the_library_alone_asks_for_torch_and_jaxtyping() -> None:
    assert [text.split(">")[0] for text in PROJECT["dependencies"]] == ["torch", "jaxtyping"]
    base = [text for text in requires("posenc") or [] if "extra ==" not in text]
    assert sorted(text.split(">")[0] for text in base) == ["jaxtyping", "torch"]


@pytest.mark.parametrize("extra", ["compare", "lab", "hf"])
def test_what_has_verbs_brings_the_command_line(extra: str) -> None:
    extras, wanted = PROJECT["optional-dependencies"], [extra]
    for name in wanted:
        own = [text for text in extras[name] if text.startswith("posenc[")]
        wanted += [inner for text in own for inner in text[len("posenc[") : -1].split(",") if inner not in wanted]
    assert "cli" in wanted
