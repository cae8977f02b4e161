"""Model files that tests write, and the output of posenc diff for two such files."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.integrations.huggingface import read
from posenc.integrations.programs import llama_cpp


def saved(folder: Path, name: str, content: dict[str, Any]) -> str:
    path = folder / name
    path.write_text(json.dumps(content))
    return str(path)


def converted(
    folder: Path,
    name: str,
    config: dict[str, Any],
    architecture: str = "llama",
    *,
    lists: bool = True,
    **values: Any,
) -> str:
    """Write a GGUF file with the fields for a config; ``values`` replaces fields, or removes them by None."""
    package = pytest.importorskip("gguf")
    fields = llama_cpp.write(read(config), architecture=architecture)
    heads = config["num_attention_heads"]
    sizes = {"embedding_length": config["hidden_size"], "attention.head_count": heads, "block_count": 2}
    every = {f"{architecture}.{key}": value for key, value in sizes.items()} | fields.values
    every |= {f"{architecture}.{key.replace('__', '.')}": value for key, value in values.items()}
    writer = package.GGUFWriter(folder / name, architecture)
    llama_cpp.Fields(
        {key: value for key, value in every.items() if value is not None}, fields.tensors if lists else {}
    ).add_to(writer)
    finish(writer)
    return str(folder / name)


def finish(writer: Any) -> None:
    """Write the fields and tensors of a GGUF writer to its file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compared(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Return the exit status of posenc diff, the differences in its JSON, and its printed lines."""
    run = CliRunner()
    as_json, lines = run.invoke(app, ["diff", *words, "--json"]), run.invoke(app, ["diff", *words])
    answer = json.loads(as_json.stdout)
    notes = lines.stdout.splitlines()[len(answer["differences"]) or 1 :]
    assert (as_json.exit_code, answer["notes"]) == (lines.exit_code, notes)
    return lines.exit_code, answer["differences"], lines.stdout
