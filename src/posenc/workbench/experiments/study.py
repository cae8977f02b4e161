"""A study: which encodings, tasks, seeds and lengths; presets, and a TOML file that overrides them."""

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from posenc.encodings.catalogue import canonical
from posenc.encodings.foreign import source_hash
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.workbench.experiments.plan import Plan
from posenc.workbench.tasks import TASKS, Text

DTYPES = ("float32", "bfloat16", "float64")


@dataclass(frozen=True)
class Study:
    """A grid of plans.

    Args:
        encodings: texts, ``rotary(base=500000)`` or ``layers(rotary*3 + nope)``; ``module:Class`` for one's own.
        tasks: names in their catalogue.
        seeds: runs per encoding and task, seeds 0 … seeds−1.
        lengths: test lengths as multiples of each task's trained length; 1 is always among them.
        steps: training steps by task, where they are not the task's own.
        blocks: test windows of text per length.
        answers: test sequences per length of the tasks that have right answers.
        device, dtype: where and in which type to train.
        width, layers, heads: of the transformer; ``heads(alibi*4, rotary*4)`` needs eight heads.
        text: a file to read; by default the language topics that ship with CPython.
    """

    encodings: tuple[str, ...] = ("nope", "sinusoidal", "learned-clamped", "rotary", "alibi")
    tasks: tuple[str, ...] = ("language", "ordering", "needle")
    seeds: int = 1
    lengths: tuple[float, ...] = (1, 2, 4, 8)
    steps: dict[str, int] = field(default_factory=dict)
    blocks: int = 64
    answers: int = 256
    device: str = "cpu"
    dtype: str = "float32"
    width: int = 64
    layers: int = 2
    heads: int = 4
    text: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "encodings", tuple(str(canonical(parse(text))) for text in self.encodings))
        for name in self.tasks:
            if name not in TASKS:
                raise UnknownName("task", name, TASKS)
        for kind, names in (("encoding", self.encodings), ("task", self.tasks)):
            if not names or len(set(names)) != len(names):
                raise InvalidArgument(f"{kind}s={','.join(names)!r} must name at least one, and none twice")
        for name, steps in self.steps.items():
            if name not in TASKS:
                raise UnknownName("task under steps", name, TASKS)
            if steps < 1:
                raise InvalidArgument(f"steps of {name} is {steps}; at least 1 is needed")
        if self.dtype not in DTYPES:
            raise UnknownName("dtype", self.dtype, DTYPES)
        for name in ("seeds", "blocks", "answers", "width", "layers", "heads"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least 1")
        if self.width % (2 * self.heads):
            raise InvalidArgument(f"width={self.width} must be a multiple of 2·heads={2 * self.heads}: pairs turn")
        self._check_lengths()

    def _check_lengths(self) -> None:
        short = [n for n in self.lengths if n < 1]
        if short or not self.lengths:
            raise InvalidArgument(
                f"lengths={','.join(f'{n:g}' for n in self.lengths)} are multiples of the trained length and must "
                "be at least 1; the default is 1,2,4,8"
            )

    def test_lengths(self, task: str) -> tuple[int, ...]:
        """Test lengths of a task in tokens, ascending, the trained length first."""
        trained = TASKS[task].train_length
        return tuple(sorted({trained, *(round(n * trained) for n in self.lengths)}))

    def plans(self, text: Text) -> list[Plan]:
        """The grid, longest trainings first so that no worker starts one when the others are done.

        Sources of one's own classes are read for their hash; nothing is imported.
        """
        sources = {encoding: source_hash(parse(encoding).foreign) for encoding in self.encodings}
        plans = [
            Plan(
                encoding=encoding,
                task=name,
                seed=seed,
                steps=self.steps.get(name, TASKS[name].steps),
                batch=TASKS[name].batch,
                learning_rate=TASKS[name].learning_rate,
                train_length=TASKS[name].train_length,
                lengths=self.test_lengths(name),
                test_count=self.blocks if TASKS[name].measure == "loss" else self.answers,
                width=self.width,
                layers=self.layers,
                heads=self.heads,
                dtype=self.dtype,
                device=self.device,
                text_sha256=text.sha256 if name == "language" else "",
                source=sources[encoding],
            )
            for name in self.tasks
            for seed in range(self.seeds)
            for encoding in self.encodings
        ]
        return sorted(plans, key=lambda p: -p.steps * p.batch * p.train_length)


PRESETS = {
    "quick": Study(),
    "standard": Study(
        tasks=("language", "ordering", "needle", "recent"),
        seeds=3,
        steps={"language": 1500, "ordering": 900, "needle": 300},
    ),
    "full": Study(
        tasks=("language", "ordering", "needle", "recent", "copying"),
        seeds=5,
        steps={"language": 3000, "ordering": 1500, "needle": 300, "copying": 3000},
        blocks=128,
        answers=512,
    ),
}


def study(preset: str, config: Path | None, overrides: dict[str, Any]) -> Study:
    """A preset, with what a TOML file says, with what the command line says, in this order.

    Raises:
        UnknownName: a preset, or a key of the file, that there is not; the nearest is named.
        StudyError: the file cannot be read or is not TOML.
    """
    said = _read(config) if config else {}
    preset = said.pop("preset", preset)
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    known = {f.name: f.type for f in fields(Study)}
    for key in said:
        if key not in known:
            raise UnknownName(f"key in {config}", key, [*known, "preset"])
    if "text" in said and config:
        said["text"] = config.parent / said["text"]
    merged = {**said, **{key: value for key, value in overrides.items() if value is not None}}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()}
    try:
        made = replace(PRESETS[preset], **values)
    except (TypeError, AttributeError) as error:
        raise StudyError(f"{config}: a value has the wrong type ({error}); see the keys in the guide") from error
    _check_device(made.device)
    return made


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise StudyError(f"config {str(path)!r} cannot be read: {error.strerror}; pass a readable file") from error
    except ValueError as error:
        raise StudyError(f"config {str(path)!r} is not TOML: {error}") from error


def _check_device(device: str) -> None:
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"device={device!r} cannot be used here ({reason}); use cpu") from error
