"""A study: a grid of plans, said in one set of words by a TOML file, the command line and Python."""

import math
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from posenc.encodings.catalogue import canonical_text
from posenc.encodings.foreign import source_hash
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.settings import ByTask, Grid, Model, Reading, Training, checked, declared
from posenc.workbench.tasks import TASKS, Source, Text
from posenc.workbench.tasks.language import blocks

MOST_SEEDS = 65_536
"""How many seeds a count may stand for."""


@dataclass(frozen=True, kw_only=True)
class Study(Grid, Reading, Model, ByTask, Training):
    """A grid of plans: every encoding on every task with every seed.

    Every setting is declared in its group, with unit and range. Settings of ``ByTask`` are one value for all tasks
    or a table by task, ``{"language": 1500}``; each task has its own where nothing is said.

    Raises:
        InvalidArgument: a value of a wrong type or out of range, or settings that do not go together.
        UnknownName: an encoding, a task or a choice that there is not; the nearest is named.
    """

    def __post_init__(self) -> None:
        if type(self.seeds) is int:
            if not 1 <= self.seeds <= MOST_SEEDS:
                raise InvalidArgument(
                    f"seeds={self.seeds} must be how many there are, 1 … {MOST_SEEDS:,}, or a list such as [0, 1]"
                )
            object.__setattr__(self, "seeds", tuple(range(self.seeds)))
        checked(self)
        object.__setattr__(self, "encodings", tuple(canonical_text(text) for text in self.encodings))
        for name in self.tasks:
            if name not in TASKS:
                raise UnknownName("task", name, TASKS)
        for name, values in (("encodings", self.encodings), ("tasks", self.tasks), ("seeds", self.seeds)):
            if not values or len(set(values)) != len(values):
                said = ",".join(map(str, values))
                raise InvalidArgument(f"{name}={said!r} must name at least one, and none twice")
        if not self.lengths:
            raise InvalidArgument("lengths=() must hold multiples of the trained length, such as 1,2,4,8")
        for name in declared(ByTask):
            said = getattr(self, name)
            for task in said if isinstance(said, dict) else ():
                if task not in TASKS:
                    raise UnknownName(f"task under {name}", task, TASKS)
        self._check_model()
        self._check_devices()

    def _check_model(self) -> None:
        if self.width % (2 * self.heads):
            raise InvalidArgument(f"width={self.width} must be a multiple of 2·heads={2 * self.heads}: pairs turn")
        if self.heads % (self.kv_heads or self.heads):
            raise InvalidArgument(f"kv_heads={self.kv_heads} must divide heads={self.heads}")
        for task in self.tasks:
            if self.of("steps", task) and self.of("tokens", task):
                raise InvalidArgument(f"steps and tokens of {task} are both said; leave one of them out")

    def _check_devices(self) -> None:
        """What devices share out must come out even."""
        name, share = ("train_length", 2) if self.parallel == "context" else ("batch", 1)
        for task in self.tasks if self.devices > 1 else ():
            said = self.portions(task)[name]
            if said % (share * self.devices):
                raise InvalidArgument(
                    f"{name}={said} of {task} must be a multiple of {share * self.devices} to be shared out among "
                    f"devices={self.devices}"
                )

    @property
    def source(self) -> Source:
        """Where the text comes from."""
        return Source(self.text, self.tokenizer, self.vocabulary)

    def of(self, name: str, task: str) -> Any:
        """A setting of ``ByTask`` for one task; None where nothing is said."""
        said = getattr(self, name)
        return said.get(task) if isinstance(said, dict) else said

    def portions(self, task: str) -> dict[str, Any]:
        """Steps, batch, learning rate and trained length of one task: the study's, or the task's own."""
        own = TASKS[task]
        made = {
            name: self.of(name, task) or getattr(own, name)
            for name in ("steps", "batch", "learning_rate", "train_length")
        }
        tokens = self.of("tokens", task)
        if tokens:
            made["steps"] = math.ceil(tokens / (made["batch"] * self.accumulate * made["train_length"]))
        return made

    def test_lengths(self, task: str) -> tuple[int, ...]:
        """Test lengths of a task in tokens, ascending, the trained length first."""
        trained = self.portions(task)["train_length"]
        return tuple(sorted({trained, *(round(n * trained) for n in self.lengths)}))

    def plans(self, text: Text) -> list[Plan]:
        """The grid, longest trainings first so that no worker starts one when the others are done.

        Sources of one's own classes are read for their hash; nothing is imported.
        """
        sources = {encoding: source_hash(parse(encoding).foreign) for encoding in self.encodings}
        alike = {name: getattr(self, name) for group in (Model, Training) for name in declared(group)}
        reads: dict[str, Any] = {"text_sha256": text.sha256, "tokenizer": text.tokens.name}
        plans = [
            Plan(
                encoding=encoding,
                task=name,
                seed=seed,
                lengths=self.test_lengths(name),
                test_count=(
                    min(self.blocks, blocks(text, self.test_lengths(name)[-1]))
                    if TASKS[name].measure == "loss"
                    else self.answers
                ),
                device=self.device,
                source=sources[encoding],
                **self.portions(name),
                **(reads if name == "language" else {}),
                **alike,
            )
            for name in self.tasks
            for seed in self.seeds
            for encoding in self.encodings
        ]
        return sorted(plans, key=lambda p: -p.steps * p.batch * p.accumulate * p.train_length)


def study(base: Study, config: Path | None, overrides: dict[str, Any]) -> Study:
    """A study, with what a TOML file says, with what the command line says, in this order.

    Raises:
        UnknownName: a key of the file that there is not; the nearest is named.
        StudyError: the file cannot be read or is not TOML.
    """
    said = read(config) if config else {}
    said.pop("preset", None)
    known = [each.name for each in fields(Study)]
    for key in said:
        if key not in known:
            raise UnknownName(f"key in {config}", key, [*known, "preset"])
    if config:
        said = {**said, **_beside(config, said)}
    return replace(base, **{**said, **{key: value for key, value in overrides.items() if value is not None}})


def read(path: Path) -> dict[str, Any]:
    """The keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise StudyError(f"config {str(path)!r} cannot be read: {error.strerror}; pass a readable file") from error
    except ValueError as error:
        raise StudyError(f"config {str(path)!r} is not TOML: {error}") from error


def _beside(config: Path, said: dict[str, Any]) -> dict[str, Any]:
    """Paths of a file count from where it lies."""
    found: dict[str, Any] = {}
    if isinstance(said.get("text"), str):
        found["text"] = config.parent / said["text"]
    if isinstance(said.get("tokenizer"), str) and said["tokenizer"] not in ("bytes", "bpe"):
        found["tokenizer"] = str(config.parent / said["tokenizer"])
    return found


def check_device(device: str) -> None:
    """Refuse a device that computes nothing here."""
    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"device={device!r} cannot be used here ({reason}); use cpu") from error
