"""lm-evaluation-harness, as `make programs` installs it, with posenc's model and tasks, to the end and offline."""

import json
import os
import subprocess
import tomllib
from pathlib import Path
from string import ascii_letters, digits

import pytest

from posenc.workbench.extension.forced_choice import TASKS
from posenc.workbench.extension.lm_eval_tasks import FOLDER
from support.places import ROOT
from support.pretrained import save_llama

RUN = """
import posenc.integrations.lm_eval  # releases up to 0.4.13 know no entry points
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
"""


def test_every_task_has_a_file_and_the_model_an_entry_point() -> None:
    assert {file.stem for file in FOLDER.glob("posenc_*.yaml")} == {f"posenc_{task}" for task in TASKS}
    for task in TASKS:
        assert f"task: {task}\n" in (FOLDER / f"posenc_{task}.yaml").read_text()
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["lm_eval.models"]
    module, name = points["posenc"].split(":")
    assert f"class {name}(" in (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text()


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, decoders

    folder = tmp_path_factory.mktemp("llama")
    save_llama(folder, ascii_letters + digits + " .,:\n", trained=2048)
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.decoder = decoders.Fuse()  # characters without spaces between them
    tokenizer.save(str(file))
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "eos_token": "?"}))
    return folder


@pytest.mark.programs
@pytest.mark.parametrize("scaling", ["", ",scaling=yarn(2)", ",scaling=linear(2)"])
def test_a_task_runs_to_its_end(llama: Path, tmp_path: Path, scaling: str) -> None:
    python = str(ROOT / "build" / "programs" / "lm_eval" / "bin" / "python")
    line = [python, "-c", RUN, "run", "--model", "posenc", "--model_args", f"pretrained={llama}{scaling}"]
    line += ["--tasks", "posenc_keys,posenc_words", "--include_path", str(FOLDER), "--device", "cpu"]
    line += ["--metadata", '{"length": 2500, "texts": 1}', "--output_path", str(tmp_path), "--log_samples"]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    run = subprocess.run(line, capture_output=True, text=True, env=offline)
    assert run.returncode == 0, run.stderr
    (results,) = tmp_path.rglob("results_*.json")
    read = json.loads(results.read_text())
    assert {name: count["effective"] for name, count in read["n-samples"].items()} == {
        "posenc_keys": 9,
        "posenc_words": 3,
    }
    assert 0 <= read["results"]["posenc_keys"]["acc,none"] <= 1
    (samples,) = tmp_path.rglob("samples_posenc_keys_*.jsonl")
    numbers = [json.loads(line)["resps"] for line in samples.read_text().splitlines()]
    known = llama / "unscaled.json"
    if not scaling:
        known.write_text(json.dumps(numbers))
    else:
        assert numbers != json.loads(known.read_text())
