"""Write docs/matrix.md: whether each program computes the positions of 30 published checkpoints.

Run ``python -m tools.matrix``. Each cell compares the position table of a config with a release's. Both are
computed from stored files; no program is started, and no checkpoint is loaded.
"""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from posenc.errors import PosencError
from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.position_table import PositionTable, of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "matrix.md"
PUBLISHED = ROOT / "tests" / "data" / "published_configs.jsonl"
ASKED = ROOT / "tests" / "data" / "model_files" / "configs.jsonl"
PROGRAMS = ("transformers", "vllm", "sglang", "mlx", "exllamav3")
LENGTHS = ("pretrained_length", "tuned_length", "admitted_length")
CHECKPOINTS = """
codellama_7b meta-llama/Meta-Llama-3.1-8B meta-llama/Llama-3.3-70B-Instruct
meta-llama/Llama-3.2-Vision meta-llama/Llama-4-Scout-17B-16E-Instruct mistral_7b
mistralai/Mixtral-8x7B-v0.1 mistralai/Devstral-Small-2-24B-Instruct Qwen/Qwen2-7B-Instruct Qwen/Qwen3-0.6B
Qwen/Qwen3-30B-A3B Qwen/Qwen2.5-VL-7B-Instruct Qwen/Qwen2-VL Qwen/Qwen3.5-27B
Qwen/Qwen3-Next-80B-A3B-Thinking google/gemma-3 gemma2_27b deepseek-ai/DeepSeek-V3
deepseek-ai/DeepSeek-V4-Flash moonshotai/Kimi-K2-Instruct moonshotai/Kimi-K2.5 openai/gpt-oss-20b
phi-4 phi-3_5 zai-org/GLM-4.5 zai-org/GLM-5 MiniMaxAI/MiniMax-M2.5 allenai/Olmo-3.1-32B-Instruct
XiaomiMiMo/MiMo-V2-Flash starcoder2
"""
HEAD = """---
tags: [vllm, sglang, mlx, transformers, rope, matrix]
---

# 30 checkpoints × programs

Does a release compute a published config's encoding? *equal*: yes (lengths are not compared). *cos …*: no; the
largest error of cos (times the attention factor) at positions up to four times the trained length. *window* or
another field: this field differs. *refused*: the release does not run the model. *not read*: posenc does not know
how. *not asked*: its model file was not run.
`python -m tools.matrix` writes this page ([how releases are tested](one-config.md#programs)).

"""
DIFFERS = """## What differs, and in which config { #differs }

*In the config* means as read by transformers. *cos* includes the attention factor. For MiMo, transformers adds 1
to `sliding_window`.

"""


def page() -> str:
    """Return the page of all programs and configs."""
    published = {
        line["name"]: line["config"] for line in map(json.loads, PUBLISHED.read_text("utf-8").splitlines())
    }
    columns = {}
    for program in (import_module(f"posenc.integrations.programs.{name}").PROGRAM for name in PROGRAMS):
        by_release = {
            version: [cell(published[name], program, version) for name in CHECKPOINTS.split()]
            for version in program.releases.versions
        }
        if len({str(cells) for cells in by_release.values()}) == 1:
            by_release = {" and ".join(by_release): next(iter(by_release.values()))}
        columns |= {f"{program.title} {version}": cells for version, cells in by_release.items()}
    titles = list(columns)
    lines = [f"| config | {' | '.join(titles)} |", f"| --- |{' --- |' * len(titles)}"]
    notes = DIFFERS.splitlines()
    equal: dict[tuple[str, ...], list[str]] = {}
    for name, *row in zip(CHECKPOINTS.split(), *columns.values(), strict=True):
        cells, by_text = [short for short, _ in row], {}
        for title, (_, sentences) in zip(titles, row, strict=True):
            for sentence in sentences:
                by_text.setdefault(sentence, []).append(title)
        if by_text:
            lines.append(f"| {name} | {' | '.join(cells)} |")
            notes.append(f"**{name}**: `{json.dumps(rope(published[name]), ensure_ascii=False)}`\n")
            notes += [f"- {', '.join(where)}: {sentence}" for sentence, where in by_text.items()] + [""]
        else:
            equal.setdefault(tuple(cells), []).append(name)
    lines += [
        "",
        "## Equal in every release that is compared { #equal }",
        "",
        "| configs | not read by | not asked |",
        "| --- | --- | --- |",
    ]
    for row, names in sorted(equal.items()):
        missing = (
            ", ".join(title for title, short in zip(titles, row, strict=True) if short == reason)
            for reason in ("not read", "not asked")
        )
        lines.append(f"| {', '.join(names)} | {' | '.join(missing)} |")
    return HEAD + "\n".join([*lines, "", *notes, *changes()]) + "\n"


def changes() -> list[str]:
    """Return what changed between two releases of a server, over all configs that were run, except those with a
    null at which only some releases fail.

    transformers is omitted: its only change is that version 4 does not know ``rope_parameters``. llama.cpp is
    omitted because nothing changed: tests compare both releases' rope type of every architecture, and likelihoods.
    """
    lines = [
        "## Positions by release { #releases }",
        "",
        "| releases | families | change in the first family |",
        "| --- | --- | --- |",
    ]
    configs = [
        line["config"]
        for line in map(json.loads, ASKED.read_text("utf-8").splitlines())
        if not line["name"].endswith(" null")
    ]
    programs = [import_module(f"posenc.integrations.programs.{name}").PROGRAM for name in PROGRAMS[1:]]
    for program in (program for program in programs if len(program.releases.versions) > 1):
        older, newer = program.releases.versions
        changed: dict[str, tuple[str, list[str]]] = {}
        for config in configs:
            answers = [table_or_refusal(program, config, version) for version in (older, newer)]
            tables = [answer for answer in answers if isinstance(answer, PositionTable)]
            found = {}
            if len(tables) == 2 and not any(table.not_asked for table in tables):
                apart = differences(*tables, names=(older, newer))
                found = {each.what: each.text for each in apart if each.what not in LENGTHS[:2]}
            elif len(tables) == 1 and not tables[0].not_asked and any("not run" in str(one) for one in answers):
                refusing = newer if isinstance(answers[0], PositionTable) else older
                found = {refusing: f"{refusing} does not run it"}
            for what, text in found.items():
                changed.setdefault(what, (text, []))[1].append(config["model_type"])
        for i, (text, types) in enumerate(changed.values()):
            releases = f"{program.title} {older} → {newer}" if i == 0 else ""
            lines.append(f"| {releases} | {', '.join(dict.fromkeys(types))} | {text} |")
    return lines


def table_or_refusal(program: Any, config: dict[str, Any], version: str) -> PositionTable | str:
    """Return the position table that a release computes from a config, or its refusal."""
    try:
        return program.read(config, version)
    except PosencError as error:
        return str(error)


def cell(config: dict[str, Any], program: Any, version: str) -> tuple[str, list[str]]:
    """Return the text of a cell and the sentences below the table, one for all layer types that differ equally."""
    try:
        ours, table = of(read(config)), program.read(config, version)
        apart = differences(ours, table, names=("the config", "the program"))
    except PosencError as error:
        said = str(error).removeprefix(f"{program.title} {version} ")
        return ("refused", [said]) if "not run" in said else ("not read", [])
    apart = [each for each in apart if each.what not in LENGTHS]
    if not apart or "model file" in table.not_asked:
        return "not asked" if table.not_asked else "equal", []
    worst = max((error.cos for each in apart for error in each.errors), default=0.0)
    fields = ", ".join(dict.fromkeys(each.what.replace("_", " ") for each in apart))
    layer_types: dict[str, list[str]] = {}
    for each in apart:
        sentence = (
            str(each)
            .removeprefix(f"{each.layer_type}: ")
            .replace(" in the config, ", " in the config but ")
            .replace(" but none in the program", "; the program has none")
            .replace("the query scale is query-scale", "the factor on queries is query-scale")
        )
        sentence = re.sub(": base [^;]*longrope.*;", ";", sentence)
        layer_types.setdefault(sentence, []).extend([each.layer_type] if each.layer_type else [])
    sentences = [
        f"in {re.sub(r'all within [0-9]+', 'windowed', ' and '.join(types))} layers, {text}"
        if 0 < len(types) < len(ours.layers)
        else text
        for text, types in layer_types.items()
    ]
    return f"cos {worst:.2g}" if worst else fields, sentences


def rope(config: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a config that determine its rotation, with long lists cut to two entries."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(inner) for key, inner in value.items()}
        return [*value[:2], "…"] if isinstance(value, list) and len(value) > 4 else value

    part = config.get("text_config", config)
    named = (
        "model_type",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "sliding_window",
        "max_position_embeddings",
    )
    return {key: short(part[key]) for key in named if part.get(key) is not None}


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
