"""What a study can say, each setting declared once: its meaning, unit, range and default.

Studies and plans inherit these groups; a TOML file, the command line and Python check by them and say their words.
"""

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument, UnknownName


@dataclass(frozen=True)
class Setting:
    """One setting.

    Args:
        help: what it means.
        unit: of its value; empty where it has none.
        low, high: the range, both ends included.
        choices: the values that there are, where they are few.
        kind: the type of one value; a whole number is also a float, and nothing else converts.
        optional: whether it may be left open, as None.
        many: whether it is several, separated by commas on the command line.
        by_task: whether it may be said for all tasks at once or for some by name; open means each task's own.
    """

    help: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    kind: type = int
    optional: bool = False
    many: bool = False
    by_task: bool = False

    @property
    def range(self) -> str:
        """``1 … 4,096 layers``; the choices; or nothing."""
        if self.choices:
            return " or ".join(self.choices)
        if math.isinf(self.low) or self.kind is bool:
            return self.unit
        return f"{_shown(self.low)} … {_shown(self.high)} {self.unit}".rstrip()

    def check(self, name: str, value: object) -> Any:
        """The value as a study keeps it.

        Raises:
            InvalidArgument: of another type, or out of range.
            UnknownName: none of the choices.
        """
        if value is None and (self.optional or self.by_task):
            return None
        if self.by_task and isinstance(value, dict):
            return {task: self._one(f"{name} of {task}", each) for task, each in value.items()}
        if self.many:
            if not isinstance(value, list | tuple):
                raise InvalidArgument(f"{name}={value!r} must be a list, such as [{self._example()}]")
            return tuple(self._one(name, each) for each in value)
        return self._one(name, value)

    def read(self, name: str, said: str) -> Any:
        """The value of a word of the command line: ``1,2,4``, or ``language=800,ordering=300`` by task."""
        if self.by_task and "=" in said:
            pairs = [part.partition("=") for part in said.split(",")]
            return {task.strip(): self._word(name, value) for task, _, value in pairs}
        if self.many and not (self.kind is int and "," not in said):  # one whole number is a count
            from posenc.encodings.text import split

            return tuple(self._word(name, part) for part in split(said))
        return self._word(name, said)

    def _word(self, name: str, word: str) -> Any:
        if self.kind in (str, Path):
            return self.kind(word.strip())
        try:
            number = float(word)
            return int(number) if self.kind is int and number == int(number) else number
        except (ValueError, OverflowError) as error:
            raise InvalidArgument(f"{name}={word!r} must be {self._wanted()}") from error

    def _one(self, name: str, value: object) -> Any:
        if self.kind is Path and isinstance(value, str | Path):
            return Path(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind:
            raise InvalidArgument(f"{name}={value!r} must be {self._wanted()}")
        if self.choices and value not in self.choices:
            raise UnknownName(name, value, self.choices)
        if isinstance(value, int | float) and not self.low <= value <= self.high:
            raise InvalidArgument(f"{name}={value!r} must be {self._wanted()}")
        return value

    def _wanted(self) -> str:
        types = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", Path: "a path"}
        wanted = types[self.kind]
        return f"{wanted}, {self.range}" if self.range else wanted

    def _example(self) -> str:
        return {str: '"a", "b"', float: "1, 2", int: "0, 1"}[self.kind]


def _shown(number: float) -> str:
    """``4,096``, but ``1e-09``."""
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def _whole(default: int | None, low: int, high: float, unit: str, help: str, **more: Any) -> Any:
    made = Setting(help, unit, low, high, optional=default is None, **more)
    return field(default=default, metadata={"setting": made})


def _number(default: float, low: float, high: float, unit: str, help: str) -> Any:
    return field(default=default, metadata={"setting": Setting(help, unit, low, high, kind=float)})


def _word(default: str, choices: tuple[str, ...], help: str) -> Any:
    return field(default=default, metadata={"setting": Setting(help, choices=choices, kind=str)})


def _switch(help: str, *, default: bool = False) -> Any:
    return field(default=default, metadata={"setting": Setting(help, kind=bool)})


def _grid(default: Any, help: str, unit: str = "", kind: type = str, **more: Any) -> Any:
    made = Setting(help, unit, kind=kind, many=isinstance(default, tuple), optional=default is None, **more)
    return field(default=default, metadata={"setting": made})


def by_task(kind: type, low: float, high: float, unit: str, help: str) -> Any:
    """A setting that every task has of its own."""
    return field(default=None, metadata={"setting": Setting(help, unit, low, high, kind=kind, by_task=True)})


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is compared, and how it is tested."""

    encodings: tuple[str, ...] = _grid(
        ("nope", "sinusoidal", "learned-clamped", "rotary", "alibi"),
        "such as t5, rotary(base=500000), layers(rotary*3 + nope), heads(alibi*2, rotary*2), my_file:Mine",
    )
    tasks: tuple[str, ...] = _grid(
        ("language", "ordering", "needle"), "of language, ordering, needle, recent, copying, neighbours"
    )
    seeds: tuple[int, ...] = _grid((0,), "one run each; one number n is 0 to n−1", "", int, low=0, high=2**31)
    lengths: tuple[float, ...] = _grid(
        (1.0, 2.0, 4.0, 8.0), "of tests; 1 is always among them", "× the trained length", float, low=1, high=65536
    )
    blocks: int = _grid(
        64, "windows of text that are tested per length; fewer in a short text", "windows", int, low=1, high=1e6
    )
    answers: int = _grid(256, "sequences per length that are tested", "sequences", int, low=1, high=1e6)
    device: str = _grid("cpu", "where a run computes: cpu, cuda, …")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The text of the language task."""

    text: Path | None = _grid(
        None, "file, folder, or .parquet with a column text; else the topics that ship with CPython", "", Path
    )
    tokenizer: str = _grid("bytes", "bytes, bpe (learnt from the training part), or the path of a tokenizer.json")
    vocabulary: int = _grid(4096, "that bpe learns", "tokens", int, low=256, high=1e6)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The transformer, the same for every encoding."""

    width: int = _whole(64, 2, 65536, "channels", "of the token embeddings")
    layers: int = _whole(2, 1, 4096, "layers", "attention and feed-forward, one after the other")
    heads: int = _whole(4, 1, 4096, "heads", "query heads; 2·heads divides width, as pairs turn")
    kv_heads: int | None = _whole(None, 1, 4096, "heads", "key and value heads, a divisor of heads; else as many")
    hidden: int | None = _whole(None, 1, 1048576, "channels", "inside the feed-forward part; else 4·width")
    norm: str = _word("layer", ("layer", "rms"), "before attention and feed-forward")
    activation: str = _word("gelu", ("gelu", "swiglu"), "of the feed-forward part")
    biases: bool = _switch("linear maps have biases", default=True)
    tied: bool = _switch("the output map is the embedding's transpose, where a task says its inputs")
    qk_norm: bool = _switch("queries and keys are normed per head before they turn")
    window: int | None = _whole(None, 1, 2**31, "tokens", "how far back a layer sees, itself included; else all")

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model learns, whatever the task."""

    accumulate: int = _whole(1, 1, 65536, "batches", "whose gradients make one step")
    optimiser: str = _word("adamw", ("adamw", "adam", "sgd"), "what turns gradients into steps")
    beta1: float = _number(0.9, 0, 0.9999, "", "decay of the mean gradient (momentum for sgd)")
    beta2: float = _number(0.98, 0, 0.99999, "", "decay of the mean squared gradient")
    weight_decay: float = _number(0.01, 0, 10, "", "of weights per step and learning rate")
    schedule: str = _word("cosine", ("cosine", "linear", "constant", "trapezoid"), "of the learning rate")
    warm_up: float = _number(0.05, 0, 1, "share of the steps", "over which the learning rate rises from 0")
    floor: float = _number(0.05, 0, 1, "share of the learning rate", "that the schedule ends at")
    clip: float = _number(1.0, 0, 1e9, "", "largest norm of a step's gradient; 0 clips nothing")
    dtype: str = _word("float32", ("float32", "bfloat16", "float64"), "of the parameters")
    autocast: str = _word("none", ("none", "bfloat16"), "type that activations are computed in, parameters kept")
    compile: bool = _switch("compile the training step; slow to begin, faster later")
    devices: int = _whole(1, 1, 4096, "devices", "of one machine, that one run goes over")
    parallel: str = _word(
        "ddp", ("ddp", "fsdp", "context"), "what devices share out: batch, batch and model, or sequences"
    )
    recompute: bool = _switch("keep each layer's input alone and compute the rest again for the gradient")


@dataclass(frozen=True, kw_only=True)
class ByTask:
    """How long and in what portions a task is learnt; each task has its own unless these say otherwise."""

    train_length: Any = by_task(int, 2, 2**24, "tokens", "longest training sequence")
    steps: Any = by_task(int, 1, 1e9, "steps", "of the training")
    tokens: Any = by_task(int, 1, 1e15, "tokens", "read in training, in place of steps")
    batch: Any = by_task(int, 1, 1e6, "sequences", "per batch")
    learning_rate: Any = by_task(float, 1e-9, 10, "", "the highest of the schedule")


def declared(kind: type) -> dict[str, Setting]:
    """Every setting of a group, or of a study, by name and in order."""
    return {each.name: each.metadata["setting"] for each in fields(kind) if "setting" in each.metadata}


def checked(made: object) -> None:
    """Check every setting of a frozen dataclass, and keep the checked values."""
    for name, setting in declared(type(made)).items():
        object.__setattr__(made, name, setting.check(name, getattr(made, name)))
