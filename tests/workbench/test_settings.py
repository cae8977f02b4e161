"""A setting works or is refused in every verb, and what is printed is printed as it stands."""

import ast
from pathlib import Path

import pytest
from rich.table import Table

from posenc.commands import app as cli
from posenc.commands.screen import screen
from posenc.commands.verify import report
from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.claims.claim import Finding, Outcome
from support.command_line import refusal, said
from support.places import CONFIGS

WORKBENCH = Path(cli.__file__).parent
DATA = "[cos kθ, sin kθ] [red]x[/red] [/] :smile: https://a.b 'c' 3"
"""Everything that a terminal library may take for something to do."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show --set width=64", "--set 'width=64' is given without the name of a figure; add the figure's name"),
        ("show -o names.txt", "--output 'names.txt' is given without the name of a figure; add the figure's name"),
        ("show lesson --set d_model=64", "unknown setting of lesson 'd_model'; did you mean 'width'"),
        ("show lesson --set length=0", "length=0 must be between"),
        ("show all", "unknown figure 'all'"),
        ("show heatmpa", "unknown figure 'heatmpa'; did you mean 'heatmap'"),
        ("show heatmap --set widht=3", "unknown setting of heatmap 'widht'; did you mean 'width'"),
        ("show heatmap --set width=wide", "width='wide' must be a whole number"),
        ("show heatmap --set length=100000", "length=100000 must be between 2 and 4096"),
        ("show bias --set causal=yes", "causal='yes' must be true or false"),
        ("show bias --set causal", "has no '='; write it as --set name=value"),
        ("show heatmap --set width=8 --set width=16", "--set 'width=16' sets width a second time"),
        ("show heatmap --set d_model=64", "unknown setting of heatmap 'd_model'; did you mean 'width'"),
        ("compare --launcher in-process --cpus 2", "--launcher in-process cannot limit runs to cpus=2"),
        ("compare --launcher in-process --gpus 0.5", "cannot limit runs to gpus=0.5; omit the limit, or"),
        ("verify --only offset-ony", "unknown claim 'offset-ony'; did you mean 'offset-only'"),
        (
            f"inspect {CONFIGS}/gpt2.json --base 500",
            "base=500 is not needed, because the config can be read without it",
        ),
        (
            f"inspect {CONFIGS}/llama-3.1-8b.json --base 1e4",
            "base=10000 is not needed, because the config can be read without it",
        ),
        (f"inspect {CONFIGS}/gpt2.json -o figure.svg", "--output 'figure.svg' does not apply, because the"),
    ],
)
def test_a_setting_that_does_not_apply_is_refused(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(*words.split())
    assert list(tmp_path.iterdir()) == []


def test_posenc_alone_says_what_to_do_first() -> None:
    first = [line.split()[1] for line in said().splitlines()]
    assert first == ["compare", "extend", "inspect", "lab", "--help"]


def test_every_sentence_of_a_claim_is_printed_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    broken = (Finding(f"row {DATA}", 1.0, DATA, False),)
    report([Outcome(claim, broken, 0.0, DATA) for claim in CLAIMS.values()], screen())
    printed = capsys.readouterr().out
    for claim in CLAIMS.values():
        assert claim.statement in printed
        assert claim.precise in printed
    assert printed.count(f"row {DATA}: 1, expected {DATA}") == len(CLAIMS)


def test_the_screen_prints_data_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table(f"head {DATA}", title=f"title {DATA}", caption=f"caption {DATA}")
    table.add_row(f"cell {DATA}")
    screen().print(f"line {DATA}")
    screen().print(table)
    printed = capsys.readouterr().out
    assert all(f"{place} {DATA}" in printed for place in ("line", "head", "title", "caption", "cell"))


@pytest.mark.parametrize(
    "path", sorted({*WORKBENCH.rglob("*.py")} - {WORKBENCH / "screen.py"}), ids=lambda path: path.stem
)
def test_all_printing_goes_through_the_screen(path: Path) -> None:
    """No console of one's own, nor the one that rich makes where none is passed."""
    tree = ast.parse(path.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [(call.func.id, call) for call in calls if isinstance(call.func, ast.Name)]
    assert not [call.lineno for name, call in named if name == "Console"]
    origins = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    bars = {alias.name for node in origins if (node.module or "").startswith("rich") for alias in node.names}
    takes = [call for name, call in named if name in bars & {"track", "Progress"}]
    assert all("console" in {keyword.arg for keyword in call.keywords} for call in takes)
