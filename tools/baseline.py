"""Collect the project's outputs, and list every difference from the outputs of an older commit.

    python tools/baseline.py --compare 77477dd          # both commits on this machine, into build/baseline
    python tools/baseline.py --collect FOLDER           # only the current tree

The old commit runs once, in a worktree with its own environment, made by its own Makefile; both are kept in
build/baseline. The last digits of trained numbers differ between processors, so both sides must run on one machine.
Both sides run this script and read the configs of the newer commit.
"""

import argparse
import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "baseline"
DATA = ROOT / "tests" / "data"
PROGRAMS = ("vllm", "sglang", "mlx", "llama_cpp", "transformers@4.57.6")
GRID = """
encodings = ["rotary", "alibi", "learned"]
tasks = ["ordering", "language"]
seeds = 2
steps = {ordering = 60, language = 40}
lengths = [1, 2, 4]
answers = 64
blocks = 16
learning_rate = [1e-3, 3e-3]
"""
"""The study with a list of learning rates."""
SHOWN = 12
"""The number of differences to print per part; all differences are written to a file."""


def posenc(*arguments: str | Path) -> dict[str, Any]:
    """Run a command in this process and return its output and exit status."""
    from posenc.cli import main

    out, err, status = io.StringIO(), io.StringIO(), 0
    before, sys.argv = sys.argv, ["posenc", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {error}"}
    finally:
        sys.argv = before
    return {"status": status, "out": out.getvalue().splitlines(), "err": err.getvalue().splitlines()}


def studies(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the tables of two studies."""
    (folder / "grid.toml").write_text(GRID)
    for name, how in (("quick", ("--preset", "quick")), ("grid", ("--config", folder / "grid.toml"))):
        posenc("compare", *how, "--output", folder / name)
        yield name, json.loads((folder / name / "tables.json").read_text())


def extensions(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the results of extend for a study's model and for a transformers folder."""
    from support.pretrained import save_llama

    posenc(
        "compare", "--encodings", "rotary", "--tasks", "language", "--steps", "200", "--output", folder / "study"
    )
    save_llama(folder / "llama")
    for name, more in (("study", ("--finetune", "20")), ("llama", ())):
        output = folder / f"extended-{name}"
        said = posenc("extend", folder / name, "--to", "4x", "--documents", "4", *more, "--output", output)
        found = next(output.rglob("extension.json"), None)
        yield name, {"said": said, "found": found and json.loads(found.read_text())}


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield three configs for every model type of transformers, and the published configs."""
    from tools.walk_type import PUBLISHED, completed, rebased, variants
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    from posenc.integrations.huggingface import read

    for name in sorted(CONFIG_MAPPING_NAMES):
        with contextlib.suppress(Exception):
            default = CONFIG_MAPPING[name]()
            yield f"{name} default", default.to_dict()
            config = type(default).from_dict(completed(name, rebased(default.to_dict())))
            yield f"{name} rebased", config.to_dict()
            for kind, make in variants(name, config, read(config)):
                yield f"{name} {kind}", make().to_dict()
    for line in PUBLISHED.read_text("utf-8").splitlines():
        published = json.loads(line)
        yield f"published {published['name']}", published["config"]


def readings(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield what posenc reads from each of these configs, or the error."""
    from posenc.integrations.huggingface import read

    asked = Path(os.environ["BASELINE_CONFIGS"])
    if not asked.exists():
        asked.write_text("".join(json.dumps(pair, default=str) + "\n" for pair in configs()))
    for name, config in map(json.loads, asked.read_text().splitlines()):
        try:
            yield name, plain(read(config))
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"


def plain(value: Any) -> Any:
    """Convert a value to JSON types: dataclasses to their fields, unknown objects to their repr."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def words(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the text and JSON of inspect and diff for the stored configs and for configs from issue threads."""
    for path in sorted((*(DATA / "configs").glob("*.json"), *(DATA / "field").rglob("*.json"))):
        name = path.relative_to(DATA).as_posix()
        yield f"inspect {name}", posenc("inspect", path)
        for program in PROGRAMS:
            yield f"inspect --for {program} {name}", posenc("inspect", path, "--for", program, "--json")
            yield f"diff {program} {name}", posenc("diff", path, f"{program}:{path}")
            yield f"diff --json {program} {name}", posenc("diff", path, f"{program}:{path}", "--json")


def lab(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the answer of every stage at both ends of every control."""
    from posenc.errors import PosencError
    from posenc.pictures import wire
    from posenc.teaching.lab.rooms import BY_QUESTION

    for _, stage in BY_QUESTION.values():
        ends = [
            {control.name: end}
            for control in stage.controls
            for end in control.settable[:: max(1, len(control.settable) - 1)]
        ]
        for state in ({}, *ends):
            try:
                answer: Any = wire.view(stage.answer(state))
            except PosencError as refused:
                answer = str(refused)
            yield f"{stage.question} {state}", answer


PARTS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    "studies": studies,
    "extensions": extensions,
    "readings": readings,
    "words": words,
    "lab": lab,
}


def collect(folder: Path, parts: Sequence[str]) -> None:
    """Write one JSON file per part for the tree in the current folder; existing parts are kept."""
    import torch
    import transformers

    sys.path[:1] = [os.getcwd(), str(Path("tests").resolve())]
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "HF_HUB_OFFLINE": "1"}
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        kept = folder / f"{part}.json"
        if kept.exists():
            continue
        with tempfile.TemporaryDirectory() as room:
            answers = dict(PARTS[part](Path(room)))
            text = json.dumps(answers, indent=1, sort_keys=True, default=repr).replace(room, "ROOM")
        kept.write_text(text)
        print(f"{part}: {len(answers)} answers", flush=True)


def old_side(commit: str) -> Path:
    """Return the folder with the worktree, environment and outputs of a commit; create the folder if needed."""
    name = subprocess.run(
        ["git", "rev-parse", "--short=12", f"{commit}^{{commit}}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    side = KEPT / name
    if not (side / "tree").is_dir():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", side / "tree", name], cwd=ROOT, check=True)
    clean = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS")
    }
    subprocess.run(["make", ".venv/.dev"], cwd=side / "tree", check=True, env=clean)
    return side


def answer(tree: Path, python: Path | str, folder: Path, parts: Sequence[str]) -> None:
    """Collect the outputs of a tree, with its own Python and source."""
    environment = os.environ | {"BASELINE_CONFIGS": str(KEPT / "configs.jsonl"), "PYTHONPATH": str(tree / "src")}
    command = [str(python), __file__, "--collect", str(folder), "--parts", ",".join(parts)]
    subprocess.run(command, cwd=tree, check=True, env=environment)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every leaf of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None or not value:
        yield path, value
        return
    for key, item in inner:
        yield from leaves(item, f"{path}/{key}")


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each output that was added or removed, and for each leaf that changed."""
    for key in sorted(before.keys() | after.keys()):
        if key not in after or key not in before:
            yield f"{'only before' if key in before else 'only after'}: {key}"
        elif before[key] != after[key]:
            old, new = dict(leaves(before[key])), dict(leaves(after[key]))
            for path in sorted(old.keys() | new.keys()):
                if path not in old or path not in new or old[path] != new[path]:
                    yield f"{key} {path}: {old.get(path, 'nothing')!r} -> {new.get(path, 'nothing')!r}"


def compare(commit: str, parts: Sequence[str]) -> int:
    """Collect the outputs of both sides, write all differences to a file, and print the first of each part."""
    KEPT.mkdir(parents=True, exist_ok=True)
    new = KEPT / "new"
    for part in parts:
        (new / f"{part}.json").unlink(missing_ok=True)
    answer(ROOT, sys.executable, new, parts)
    old = old_side(commit)
    answer(old / "tree", old / "tree" / ".venv" / "bin" / "python", old, parts)
    total: Counter[str] = Counter()
    with (KEPT / "differences.txt").open("w") as file:
        for part in parts:
            lines = list(differences(*(json.loads((side / f"{part}.json").read_text()) for side in (old, new))))
            total[part] = len(lines)
            file.writelines(f"{part}: {line}\n" for line in lines)
            print(f"{part}: {len(lines)} differences", *lines[:SHOWN], sep="\n  ")
    print(f"All of them: {KEPT / 'differences.txt'}")
    return 1 if total.total() else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", metavar="COMMIT", help="list all differences from this commit's outputs")
    parser.add_argument("--collect", metavar="FOLDER", type=Path, help="write the outputs of the current tree")
    parser.add_argument("--parts", default=",".join(PARTS), help="only these parts, separated by commas")
    given = parser.parse_args()
    parts = given.parts.split(",")
    if given.collect:
        collect(given.collect, parts)
        return 0
    if not given.compare:
        parser.error("pass --compare COMMIT or --collect FOLDER")
    return compare(given.compare, parts)


if __name__ == "__main__":
    sys.exit(main())
