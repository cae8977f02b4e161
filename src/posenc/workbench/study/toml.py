"""Studies as files: a preset with the settings of a TOML file and of the command line, and a study as TOML."""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from posenc.arguments import one_of
from posenc.errors import StudyError, UnknownName
from posenc.workbench.run.settings import declared
from posenc.workbench.study.presets import PRESETS
from posenc.workbench.study.study import Study
from posenc.workbench.tasks.text import Source


def read_study(
    preset: str | None = None, config: Path | None = None, options: Mapping[str, Any] | None = None
) -> Study:
    """A preset, changed by a TOML file, changed by options.

    Args:
        preset: its name; else the one that the file names; else quick.
        config: a TOML file with settings as keys. Paths in it count from its folder.
        options: settings by name; a string is read as on the command line, and None changes nothing.

    Raises:
        UnknownName: a preset, or a key of the file, that does not exist; the nearest is named.
        StudyError: the file cannot be read or is not TOML.
        InvalidArgument: a value of a wrong type or out of range.
    """
    settings = _settings(config) if config else {}
    named = settings.pop("preset", "quick")
    base = PRESETS[one_of("preset", named if preset is None else preset, PRESETS)].study
    known = [each.name for each in fields(Study)]
    for key in settings:
        if key not in known:
            raise UnknownName(f"key in {config}", key, [*known, "preset"])
    study, given = declared(Study), {k: v for k, v in (options or {}).items() if v is not None}
    typed = {k: study[k].read(k, v) if isinstance(v, str) else v for k, v in given.items()}
    return replace(base, **_over(_over(vars(base), settings), typed))


def _over(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others over them: steps that are given take the place of tokens, for the same tasks, and tokens
    that of steps."""
    after = {**before, **given}
    for name, rival in (("steps", "tokens"), ("tokens", "steps")):
        if name in given and rival not in given and after[rival] is not None:
            of_task = (
                after[rival] if isinstance(after[rival], dict) else dict.fromkeys(after["tasks"], after[rival])
            )
            tasks = given[name] if isinstance(given[name], dict) else of_task
            after[rival] = {task: value for task, value in of_task.items() if task not in tasks} or None
    return after


def source_of(folder: Path) -> Source:
    """Where the text of the study in a folder comes from: as its study.toml states it, else the default text.

    No encoding is looked at, so that nothing of a custom one is imported.
    """
    config = folder / "study.toml"
    settings = _settings(config) if config.exists() else {}
    stated = {name: settings[name] for name in ("text", "tokenizer", "vocabulary") if name in settings}
    return replace(PRESETS["quick"].study, **stated).source


def _settings(config: Path) -> dict[str, Any]:
    """The keys of a TOML file, its paths from the file's folder."""
    try:
        settings = tomllib.loads(config.read_text())
    except OSError as error:
        raise StudyError(
            f"config {str(config)!r} cannot be read: {error.strerror}; pass a readable file"
        ) from error
    except ValueError as error:
        raise StudyError(f"config {str(config)!r} is not TOML: {error}") from error
    return settings | {name: str(config.parent / settings[name]) for name in _paths(settings)}


def _paths(settings: Mapping[str, Any]) -> list[str]:
    """The settings that name a file."""
    names = [name for name in ("text", "tokenizer") if isinstance(settings.get(name), str | Path)]
    return [name for name in names if settings[name] not in ("bytes", "bpe")]


def as_toml(study: Study, folder: Path) -> str:
    """The TOML file that makes this study again: every setting in order, tables last, as TOML wants them.

    Paths count from ``folder``, in which the file is to lie, and name nothing above what they have in common.
    """
    settings = {field.name: getattr(study, field.name) for field in fields(study)}
    for name in _paths(settings):
        settings[name] = Path(os.path.relpath(settings[name], folder))
    tables = {name: value for name, value in settings.items() if isinstance(value, dict) and value}
    single = {k: v for k, v in settings.items() if v is not None and not isinstance(v, dict)}
    lines = [f"{name} = {_value(value)}" for name, value in single.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Words, numbers and lists of them are the same in TOML as in JSON."""
    return json.dumps(value, ensure_ascii=False, default=Path.as_posix)
