"""A model card in Markdown, as the Hugging Face Hub shows it: what was measured, the keys, and what to type."""

import json
import shlex
from pathlib import Path
from typing import Any

from posenc.integrations.serving import REFUSED, in_words, serving
from posenc.pictures.numbers import count
from posenc.scaling import LengthScaling, Scaling
from posenc.workbench.extend.curves import Extension
from posenc.workbench.extend.verdict import judge
from posenc.workbench.report.extension import HEADS, answer, cells, lengths
from posenc.workbench.run.machine import versions

PROGRAMS = ("vllm", "sglang", "llama.cpp", "mlx-lm", "axolotl", "llama-factory")


def card(
    extension: Extension,
    source: Path,
    scaling: Scaling | LengthScaling,
    patch: dict[str, Any],
    command: str,
    tuned: Path | None = None,
) -> str:
    """The card of the model at ``source`` under a scaling, or of its tuned form at ``tuned``.

    Args:
        patch: the keys of config.json, which the tuned one has already.
        command: that measured it.
    """
    verdict = judge(extension, tuned=tuned is not None)
    label, length = verdict.chosen.curve.method.label, count(extension.length)
    heads = [
        head.format(length=count(extension.original_length), far=count(extension.far * extension.width))
        for head in HEADS
    ]
    rows = [["method", "verdict", *heads], ["---"] * (len(heads) + 2)]
    for score in verdict.scores:
        numbers = (text + (f" ({interval})" if interval else "") for text, interval in cells(extension, score))
        use = "**use this**, " if score is verdict.chosen else ""
        rows.append([score.curve.label, use + score.standing, *numbers])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    keys = "The files have these keys already" if tuned else "Change these keys in config.json; null deletes one"
    text, software = extension.text, ", ".join(" ".join(one) for one in json.loads(versions()).items())
    sections = [
        _front(source, tuned),
        f"# {extension.model} to {length} {extension.unit}s, {label}",
        lengths(extension, (), tuned=tuned is not None),
        answer(extension, verdict),
        "## Methods",
        f"Nats per {extension.unit}, lower is better; 95 % intervals over documents in brackets.",
        table,
        "## Config",
        f"{keys}.\n\n```json\n{json.dumps(patch, indent=2)}\n```",
        "## Commands",
        *(f"```text\n{line}\n```" for line in _commands(source, scaling, extension.length, tuned)),
        "## How it was measured",
        f"`{command}`: {len(extension.window)} documents of {length} {extension.unit}s of {text.name}, sha256 "
        f"{text.sha256}; on {', '.join(extension.hardware)}; {software}.",
    ]
    return "\n\n".join(sections) + "\n"


def _front(source: Path, tuned: Path | None) -> str:
    """The card's data; its licence is that of the card beside the model."""
    before = (source if source.is_dir() else source.parent) / "README.md"
    lines = before.read_text(encoding="utf-8").split("\n---")[0].splitlines() if before.is_file() else []
    library = "gguf" if (tuned or source).suffix == ".gguf" else "transformers"
    licence = [line for line in lines if line.startswith("license")]
    tags = ["long-context", "rope-scaling", "posenc", *(["fine-tuned"] if tuned else [])]
    data = [f"library_name: {library}", "pipeline_tag: text-generation", *licence, f"tags: [{', '.join(tags)}]"]
    return "\n".join(["---", *data, "---"])


def _commands(source: Path, scaling: Scaling | LengthScaling, length: int, tuned: Path | None) -> list[str]:
    """What to type for each program; for a tuned model from within its folder."""
    if tuned is None:
        answers = [serving(name, source, scaling, max_length=length) for name in PROGRAMS]
    else:
        answers = [serving(name, tuned) for name in PROGRAMS]
    words = [in_words(one) for one in answers if not any(note.startswith(REFUSED) for note in one["notes"])]
    if tuned is None:
        return words
    return [line.replace(shlex.quote(str(tuned)), "." if tuned.is_dir() else tuned.name) for line in words]
