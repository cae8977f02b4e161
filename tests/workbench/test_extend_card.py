"""The model cards that extend writes: data that the Hub reads, the keys of the config, and the lines of serving."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from posenc.commands.extend import extend as command
from posenc.integrations.serving import in_words, serving
from posenc.scaling import Default, Linear
from support.pretrained import save_llama

LETTERS = bytes((97 + torch.randint(0, 26, (2000,), generator=torch.Generator().manual_seed(0))).tolist())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama at twice its length, tuned for a step, and the folder of what was written."""
    folder = tmp_path_factory.mktemp("card")
    save_llama(model := folder / "model")
    (model / "README.md").write_text("---\nlicense: mit\ntags: [tiny]\n---\nlicense: none of the card's data\n")
    (model / "text.txt").write_bytes(LETTERS)
    app = typer.Typer()
    app.command()(command)
    asked = [str(model), "--to", "2x", "--text", str(model / "text.txt"), "--output", str(folder / "out")]
    run = CliRunner().invoke(app, [*asked, "--methods", "linear", "--documents", "3", "--finetune", "1"])
    assert run.exit_code == 0, run.output
    return folder


def read(file: Path) -> tuple[dict[str, Any], str]:
    """A card's data, as the Hub's own library reads it, and its text."""
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard(file.read_text())
    return card.data.to_dict(), card.text


def test_a_card_for_the_config_and_the_servers(written: Path) -> None:
    data, text = read(written / "out" / "README.md")
    assert data["license"] == "mit"
    assert (data["library_name"], data["pipeline_tag"]) == ("transformers", "text-generation")
    (keys,) = re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    assert json.loads(keys) == json.loads((written / "out" / "config-patch.json").read_text())
    use = json.loads((written / "out" / "extension.json").read_text())["use"]
    label, scaling = {"none": ("no scaling", Default()), "linear": ("linear (PI)", Linear(2.0))}[use]
    for program in ("vllm", "sglang", "mlx-lm", "axolotl"):
        words = in_words(serving(program, written / "model", scaling, max_length=128))
        assert f"```text\n{words}\n```" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [len(row) for row in rows] == [8] * 4
    assert [row[0] for row in rows if "**use this**" in row[1]] == [f"| {label}"]
    assert f"# model to 128 tokens, {label}" in text


def test_a_card_in_the_tuned_folder(written: Path) -> None:
    folder = written / "out" / "tuned"
    data, text = read(folder / "README.md")
    assert data["license"] == "mit"
    assert "fine-tuned" in data["tags"]
    assert str(written) not in text.split("## Commands")[1].split("## How")[0]
    assert "vllm serve . " in text
    (keys,) = re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    config = json.loads((folder / "config.json").read_text())
    assert {key: config.get(key) for key in json.loads(keys)} == json.loads(keys)
