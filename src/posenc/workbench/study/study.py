"""Defines a study, whose settings come from Python, a preset, a TOML file or the command line."""

import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from posenc.arguments import one_of
from posenc.encodings.catalogue import canonical_text
from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.custom_code import source_hash
from posenc.workbench.run.plan import Plan, custom_classes
from posenc.workbench.run.settings import ByTask, Grid, Model, TextSettings, Training, declared
from posenc.workbench.study.presets import PRESETS
from posenc.workbench.tasks import Source, Text, task_class
from posenc.workbench.tasks.language import blocks

MOST_SEEDS = 65_536
"""The largest number of seeds in a study."""


@dataclass(frozen=True, kw_only=True)
class Study(Grid, TextSettings, Model, ByTask, Training):
    """A study, which trains every encoding on every task with every seed and every combination of axis values.

    The base classes declare each setting with its unit and range. A setting of ``ByTask`` is one value for all
    tasks, or a dict with a value per task, such as ``{"language": 1500}``; a task that is missing from the dict
    uses its default. A model or training setting with a list of values is an axis.

    Raises:
        InvalidArgument: a value has the wrong type or is out of range, or two settings contradict each other.
        UnknownName: an encoding, a task or a choice does not exist; the message suggests the nearest name.
    """

    def __post_init__(self) -> None:
        if type(self.seeds) is int:
            if not 1 <= self.seeds <= MOST_SEEDS:
                raise InvalidArgument(
                    f"seeds={self.seeds} must be a number of seeds from 1 to {MOST_SEEDS:,}, or a list such as "
                    "[0, 1]"
                )
            object.__setattr__(self, "seeds", tuple(range(self.seeds)))
        for name, setting in declared(Study).items():
            object.__setattr__(self, name, setting.check(name, getattr(self, name)))
        object.__setattr__(self, "encodings", tuple(canonical_text(text) for text in self.encodings))
        for name in self.tasks:
            task_class(name)
        for name, values in (("encodings", self.encodings), ("tasks", self.tasks), ("seeds", self.seeds)):
            if not values or len(set(values)) != len(values):
                joined = ",".join(map(str, values))
                raise InvalidArgument(f"{name}={joined!r} must list at least one value, without duplicates")
        if not self.lengths:
            raise InvalidArgument("lengths=() must list multiples of the trained length, such as 1,2,4,8")
        for name in declared(ByTask):
            value = getattr(self, name)
            for task in value if isinstance(value, dict) else ():
                task_class(task, f"task under {name}")
        for task in self.tasks:
            if self.axes(task):
                self.points(task)
            else:
                self._check_model(task)

    def axes(self, task: str) -> dict[str, tuple[Any, ...]]:
        """Return the settings that have several values for a task."""
        values = {name: self.of(name, task) for name, setting in declared(Study).items() if setting.axis}
        return {name: value for name, value in values.items() if isinstance(value, tuple)}

    def points(self, task: str) -> list["Study"]:
        """Return a study of one task for each combination of axis values."""
        axes = self.axes(task)
        return [
            replace(self, tasks=(task,), **dict(zip(axes, values, strict=True)))
            for values in product(*axes.values())
        ]

    def _check_model(self, task: str) -> None:
        if self.width % (2 * self.heads):
            raise InvalidArgument(
                f"width={self.width} must be a multiple of 2·heads={2 * self.heads}, because channels rotate in "
                f"pairs; for heads={self.heads}, use "
                f"width={math.ceil(self.width / self.heads / 2) * self.heads * 2}"
            )
        if self.heads % (self.kv_heads or self.heads):
            raise InvalidArgument(f"kv_heads={self.kv_heads} must divide heads={self.heads}")
        if self.schedule == "constant" and self.floor != Training.floor:
            raise InvalidArgument(
                f"floor={self.floor:g} has no effect with schedule='constant'; omit floor, or use schedule='cosine'"
            )
        if self.of("steps", task) and self.of("tokens", task):
            raise InvalidArgument(f"steps and tokens of {task} are both given; pass either steps or tokens")

    @property
    def source(self) -> Source:
        """The text files and the tokenizer that the settings name."""
        return Source(text=self.text, tokenizer=self.tokenizer, vocabulary=self.vocabulary)

    def of(self, name: str, task: str) -> Any:
        """Return the value of a setting for one task; None if the study has no value for it."""
        value = getattr(self, name)
        return value.get(task) if isinstance(value, dict) else value

    def portions(self, task: str) -> dict[str, Any]:
        """Return the steps, batch, learning rate and trained length of one task.

        Values that the study does not set are the defaults of the task's class.
        """
        portions = {
            name: self.of(name, task) or getattr(task_class(task), name)
            for name in ("steps", "batch", "learning_rate", "train_length")
        }
        if tokens := self.of("tokens", task):
            portions["steps"] = math.ceil(tokens / (portions["batch"] * self.accumulate * portions["train_length"]))
        return portions

    def test_lengths(self, task: str) -> tuple[int, ...]:
        """Return the test lengths of a task in tokens, in ascending order, starting with the trained length."""
        trained = self.portions(task)["train_length"]
        return tuple(sorted({trained, *(round(n * trained) for n in self.lengths)}))

    def read_text(self, say: Callable[[str], object] = str) -> Text | None:
        """Load the text, or return None if no task reads a text. ``say`` is called with a message before
        tokenizing."""
        return self.source.load(say) if any(task_class(name).reads_text for name in self.tasks) else None

    def plans(self, text: Text | None) -> list[Plan]:
        """Return all plans of the study for the text from ``read_text()``.

        Plans with long runs come first, so that all workers finish at about the same time. The source files of
        custom classes are hashed, but not imported.
        """
        of_text: dict[str, Any] = {"text_sha256": text.sha256, "tokenizer": text.tokens.name} if text else {}
        reads = {name: task_class(name).reads_text for name in self.tasks}
        sources = {
            pair: source_hash(custom)
            for pair in product(self.encodings, self.tasks)
            if (custom := custom_classes(*pair))
        }
        plans = [
            Plan(
                encoding=encoding,
                task=name,
                seed=seed,
                lengths=point.test_lengths(name),
                test_count=(
                    min(self.blocks, blocks(text, point.test_lengths(name)[-1]))
                    if text and reads[name]
                    else self.answers
                ),
                device=self.device,
                source=sources.get((encoding, name), ""),
                **point.portions(name),
                **(of_text if reads[name] else {}),
                **{setting: getattr(point, setting) for group in (Model, Training) for setting in declared(group)},
            )
            for name in self.tasks
            for point in self.points(name)
            for seed in self.seeds
            for encoding in self.encodings
        ]
        # Different values of ``tokens`` may give the same number of steps, and so the same plan.
        return sorted({plan.id: plan for plan in plans}.values(), key=lambda plan: -plan.tokens)


def read_study(
    preset: str | None = None, config: Path | None = None, options: Mapping[str, Any] | None = None
) -> Study:
    """Read a study from a preset, a TOML file that overrides it, and options that override both.

    Args:
        preset: the name of the preset; by default the value of ``preset`` in the file, or else ``"quick"``.
        config: a TOML file with settings as keys. Paths are relative to the folder of this file.
        options: settings by name. Strings are parsed as on the command line; None keeps a setting unchanged.

    Raises:
        UnknownName: the preset or a key of the file does not exist; the message suggests the nearest name.
        StudyError: the file cannot be read or is not TOML.
        InvalidArgument: a value has the wrong type or is out of range.
    """
    settings = settings_of(config) if config else {}
    named = settings.pop("preset", "quick")
    base = Study(**PRESETS[one_of("preset", named if preset is None else preset, PRESETS)].settings)
    known, given = declared(Study), {k: v for k, v in (options or {}).items() if v is not None}
    for key in settings:
        one_of(f"key in {config}", key, [*known, "preset"])
    typed = {k: known[k].read(k, v) if isinstance(v, str) else v for k, v in given.items()}
    return replace(base, **_over(_over(vars(base), settings), typed))


def _over(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Override settings with new settings.

    A new value of ``steps`` removes ``tokens`` for the same tasks, and a new value of ``tokens`` removes ``steps``.
    """
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
    """Return the source of the text named in the ``study.toml`` of a study's folder, or of the default text if no
    text is named there."""
    config = folder / "study.toml"
    settings = settings_of(config) if config.exists() else {}
    return Source(
        **{
            name: setting.check(name, settings[name])
            for name, setting in declared(TextSettings).items()
            if name in settings
        }
    )


def settings_of(config: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; paths in the file are relative to its folder."""
    try:
        settings = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(
            f"config {str(config)!r} cannot be read: {error.strerror}; pass a readable file"
        ) from error
    except ValueError as error:
        raise StudyError(f"config {str(config)!r} is not a TOML file: {error}") from error
    return settings | {name: str(config.parent / settings[name]) for name in _paths(settings)}


def _paths(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings whose value is a path."""
    return [
        name
        for name in ("text", "tokenizer")
        if isinstance(settings.get(name), str | Path) and settings[name] not in ("bytes", "bpe")
    ]


def as_toml(study: Study, folder: Path) -> str:
    """Return the TOML text that recreates this study, with one setting per line.

    Paths are relative to ``folder``, in which the TOML file will be stored.
    """
    paths = {name: Path(os.path.relpath(getattr(study, name), folder)) for name in _paths(vars(study))}
    return "".join(
        f"{name} = {_value(value)}\n" for name, value in (vars(study) | paths).items() if value is not None
    )


def _value(value: Any) -> str:
    """Return a setting's value as TOML. A dict becomes a table. All other values are written as JSON, which is
    also valid TOML for these values."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(key)} = {_value(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False, default=Path.as_posix)
