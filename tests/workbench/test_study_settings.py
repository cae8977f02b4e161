"""What a study says: the same words everywhere, each with unit and range, and one sentence for a wrong one."""

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from posenc.commands.compare import PANELS
from posenc.workbench.run.checkpoint import path_of
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.settings import TASKS, declared
from posenc.workbench.run.training import build
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.presets import PRESETS
from posenc.workbench.study.study import Study, read_study
from posenc.workbench.tasks import task
from support.command_line import refusal, said
from support.custom import write
from support.studies import SHARED, TINY, inline, numbers, python_text

GUIDE = Path(__file__).parents[2] / "docs" / "studies.md"


def test_every_file_of_the_guide_is_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path)
    found = re.findall(r'```toml title="(.*?)"\n(.*?)```', GUIDE.read_text(), re.DOTALL)
    runs = {}
    for name, text in found:
        (tmp_path / name).write_text(text)
        runs[name] = len(read_study(config=tmp_path / name).plans(python_text()))
    assert runs == {"study.toml": 9, "researcher.toml": 25, "tuned.toml": 15}


def test_python_a_file_and_the_command_line_have_the_same_words() -> None:
    assert {f.name for f in fields(Study)} == {name for group in PANELS for name in declared(group)}
    line = {
        "width": "128",
        "lengths": "1,2",
        "seeds": "3",
        "steps": "language=5,needle=7",
        "clip": "0.5",
        "tied": True,
    }
    file = tomllib.loads("width=128\nlengths=[1,2]\nseeds=3\nclip=0.5\ntied=true\n[steps]\nlanguage=5\nneedle=7")
    assert read_study(options=line) == replace(Study(), **file)
    read = read_study(options={"seeds": "7,9", "encodings": "t5,stack(rotary, alibi)"})
    assert (read.seeds, read.encodings) == ((7, 9), ("t5", "stack(rotary, alibi)"))


def test_help_lists_every_setting_with_unit_and_range() -> None:
    shown = " ".join(said("compare", "--help").split())
    for group, title in PANELS.items():
        assert title in shown
        for name, setting in declared(group).items():
            assert f"--{name.replace('_', '-')}" in shown
            assert setting.range.split(" … ")[0] in shown
    assert ", ".join(TASKS) in shown


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('preset = ["quick"]', "unknown preset ['quick']; did you mean 'quick'? known: quick, standard"),
        ("seeds = [", "is not a TOML file"),
        ('encodings = ["rotray"]', "did you mean 'rotary'"),
        ('encodings = ["os.system(1)"]', "is not the name of an encoding"),
        ('encodings = ["rope", "rotary(base=10000)"]', "must list at least one value, without duplicates"),
        ("encodings = []", "must list at least one"),
        ('tasks = ["needle", "needle"]', "without duplicates"),
        ('seeds = "three"', "seeds='three' must be a whole number"),
        ("seeds = 1.5", "seeds=1.5 must be a whole number"),
        ("seeds = 0", "seeds=0 must be a number of seeds from 1 to 65,536, or a list such as [0, 1]"),
        ("seeds = 1_000_000_000", "seeds=1000000000 must be a number of seeds"),
        ("text = 3", "text=3 must be a path"),
        ("lengths = [inf]", "lengths=inf must be a number, 1 … 65,536 × the trained length"),
        ("lengths = [nan]", "lengths=nan must be a number"),
        ("[steps]\nlanguage = 2.5", "steps of language=2.5 must be a whole number, 1 … 1,000,000,000 steps"),
        ('encodings = "nope"', "encodings='nope' must be a list"),
        ('dtype = ["float32", "int8"]', "unknown dtype 'int8'"),
        (
            "learning_rate = [1e-3, 1e-3]",
            "learning_rate=[0.001, 0.001] must list at least one",
        ),
        ("width = []", "width=[] must list at least one value"),
        ("width = [64, 68]", "width=68 must be a multiple of 2·heads=8"),
        ("[learning_rate]\nneedle = [1e-3, -1.0]", "learning_rate of needle=-1.0 must be a number"),
        ("device = 3", "device=3 must be a word"),
        ("blocks = true", "blocks=True must be a whole number"),
        ("wdith = 3", "did you mean 'width'"),
        ("width = 0", "width=0 must be a whole number, 2 … 65,536 channels"),
        (
            "heads = 3",
            "width=64 must be a multiple of 2·heads=6, because channels rotate in pairs; for heads=3, use width=66",
        ),
        ("kv_heads = 3", "kv_heads=3 must divide heads=4"),
        ('norm = "layr"', "did you mean 'layer'"),
        ("learning_rate = -1", "learning_rate=-1.0 must be a number"),
        ("steps = 5\ntokens = 7", "steps and tokens of language are both given"),
        ('schedule = "constant"\nfloor = [0.05, 0.5]', "floor=0.5 has no effect with schedule='constant'; omit"),
        ("[batch]\nlangauge = 3", "did you mean 'language'"),
        ("train_length = 4", "train_length=4 of Ordering must be at least 6"),
    ],
)
def test_a_wrong_word_or_value_is_one_sentence_before_anything_trains(
    toml: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(toml)
    assert message in refusal("compare", "--config", path, "--output", tmp_path / "out")


def test_weights_that_are_gone_or_damaged_are_made_again(copied_study: Path) -> None:
    before, text = numbers(copied_study), python_text()
    gone, cut, *_ = (path_of(copied_study, plan) for plan in SHARED.plans(text))
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:200])
    with Ledger(copied_study, write=True) as ledger:
        assert len(Comparison(SHARED, text, ledger).missing) == 2
        Comparison(SHARED, text, ledger).run(inline)
        assert Comparison(SHARED, text, ledger).missing == []
        assert gone.stat().st_mode == ledger.path.stat().st_mode  # whoever reads the ledger reads them
    assert numbers(copied_study) == before


def test_tokens_say_how_a_training_ends_and_tied_maps_are_one(tmp_path: Path) -> None:
    made = replace(TINY, tasks=("language",), tokens=10_000, steps=None, batch=4, accumulate=2, tied=True)
    plan = made.plans(python_text())[0]
    assert plan.steps == -(-10_000 // (4 * 2 * 128))
    model = build(plan, task("language", python_text(), 256))
    assert model.head.weight is model.embedding.weight


def test_every_preset_is_a_study_with_a_purpose() -> None:
    assert list(PRESETS) == ["quick", "standard", "full", "zoo", "zoo-grid", "architecture", "small-gpt"]
    assert read_study("quick") == Study()
    assert all(each.purpose and each.cost for each in PRESETS.values())


def test_the_cost_of_the_study_for_gpus_is_called_an_estimate_and_follows_from_its_sizes() -> None:
    """Six operations a parameter and token, and six a pair of tokens and channel; 9.9e14 a second in bfloat16."""
    study, cost = read_study("small-gpt"), PRESETS["small-gpt"].cost
    parameters = study.width * (study.vocabulary + 12 * study.width * study.layers)
    pairs = study.layers * study.train_length * study.width
    operations = 6 * (parameters + pairs) * study.tokens
    runs = len(study.encodings) * len(study.seeds)
    assert f"estimated, not yet run: {runs} runs of {operations:.1e}".replace("+", "") in cost
    days = [runs * operations / (share * 9.9e14) / 86_400 for share in (2 / 5, 1 / 8)]
    assert [round(each) for each in days] == [1, 3]
    assert "a day on an H200 at two fifths of its peak, or three days at an eighth" in cost
