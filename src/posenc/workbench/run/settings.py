"""Declares every setting of a study once, with its meaning, unit, range and default.

Studies and plans inherit the groups of settings in this module. TOML files, the command line and Python use the
same names and checks.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument, UnknownName


@dataclass(frozen=True)
class Setting:
    """One setting.

    Args:
        help: what the setting means.
        unit: the unit of the value; empty if it has none.
        low, high: the smallest and the largest allowed value.
        choices: the allowed values; empty if any value in the range is allowed.
        kind: the type of one value. If the type is float, an int is converted to it; if the type is Path, a str is
            converted. Values of other types are refused.
        optional: whether the value may be None.
        many: whether the value is a tuple. Its items are separated by commas on the command line.
        by_task: whether the value may be a table with one value per task instead of one value for all tasks. If the
            setting is None, each task uses its own default.
        axis: whether a study may list several values and train with each value.
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
    axis: bool = True

    @property
    def range(self) -> str:
        """The allowed values as text, such as ``1 … 4,096 layers``; empty if any value is allowed."""
        if self.choices:
            return " or ".join(self.choices)
        if math.isinf(self.low) or self.kind is bool:
            return self.unit
        return f"{_shown(self.low)} … {_shown(self.high)} {self.unit}".rstrip()

    def check(self, name: str, value: object) -> Any:
        """Check a value, and return it in the form that a study stores.

        Raises:
            InvalidArgument: the value has the wrong type or is out of range.
            UnknownName: the value is not among the choices.
        """
        if value is None and self.optional:
            return None
        if self.by_task and isinstance(value, dict):
            return {task: self._values(f"{name} of {task}", each) for task, each in value.items()}
        if self.many:
            if not isinstance(value, list | tuple):
                raise InvalidArgument(f"{name}={value!r} must be a list, such as [{self._one(name, value)!r}]")
            return tuple(self._one(name, each) for each in value)
        return self._values(name, value)

    def read(self, name: str, text: str) -> Any:
        """Parse the value of a command-line option, such as ``1,2,4``.

        An option may have one value per task, as in ``language=800,ordering=300``. Commas also separate several
        values for the same task, as in ``language=800,ordering=300,600``.
        """
        if self.by_task and "=" in text:
            parts = re.split(r",(?=[^,]*=)", text)  # split at commas before a task, not before a value
            pairs = [(task.strip(), value) for task, _, value in (part.partition("=") for part in parts)]
            if twice := [task for task, count in Counter(task for task, _ in pairs).items() if count > 1]:
                raise InvalidArgument(
                    f"{name}={text!r} names {twice[0]} twice; list several values as in {twice[0]}=1,2"
                )
            return {task: self.read(f"{name} of {task}", value) for task, value in pairs}
        # a single whole number, as for seeds, is a count
        if ("," in text and (self.many or self.axis)) or (self.many and self.kind is not int):
            from posenc.encodings.text import split  # imports torch, which --help does not need

            return tuple(self._word(name, part) for part in split(text))
        return self._word(name, text)

    def _values(self, name: str, value: object) -> Any:
        """Check one value, or all values of an axis."""
        if not self.axis or not isinstance(value, list | tuple):
            return self._one(name, value)
        values = tuple(self._one(name, each) for each in value)
        if not values or len(set(values)) < len(values):
            raise InvalidArgument(f"{name}={value!r} must list at least one value, without duplicates")
        return values if len(values) > 1 else values[0]

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
        in_range = not isinstance(value, int | float) or self.low <= value <= self.high
        if type(value) is not self.kind or not in_range:
            raise InvalidArgument(f"{name}={value!r} must be {self._wanted()}")
        if self.choices and value not in self.choices:
            raise UnknownName(name, value, self.choices)
        return value

    def _wanted(self) -> str:
        types = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", Path: "a path"}
        return ", ".join(filter(None, (types[self.kind], self.range)))


def _shown(number: float) -> str:
    """Return a number as text, such as ``4,096`` or ``1e-09``."""
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def setting(
    default: Any,
    help: str,
    unit: str = "",
    low: float = -math.inf,
    high: float = math.inf,
    choices: tuple[str, ...] = (),
    kind: type | None = None,
    by_task: bool = False,
    axis: bool = True,
) -> Any:
    """Return a dataclass field with a ``Setting``.

    Without ``kind``, the type of one value is that of the default, or of the default's first item if the default is
    a tuple. The field is optional if the default is None, and takes a tuple if the default is a tuple.
    """
    many = isinstance(default, tuple)
    kind = kind or type(default[0] if many else default)
    return field(
        default=default,
        metadata={
            "setting": Setting(
                help, unit, low, high, choices, kind, default is None, many, by_task, axis and not many
            )
        },
    )


TASKS = {
    "language": "language:Language",
    "ordering": "ordering:Ordering",
    "needle": "needle:Needle",
    "recent": "needle:Recent",
    "copying": "copying:Copying",
    "reverse": "copying:Reverse",
    "mqar": "mqar:MQAR",
    "flip-flop": "flip_flop:FlipFlop",
    "addition": "addition:Addition",
    "addition-reversed": "addition:Reversed",
    "addition-hints": "addition:Hints",
    "addition-coupled": "addition:Coupled",
    "s5": "s5:S5",
    "neighbours": "neighbours:Neighbours",
}
"""The module in ``posenc.workbench.tasks`` and the class of every task, listed here so that ``--help`` does not
import torch."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The settings that determine which encodings and tasks are compared, and how models are tested."""

    encodings: tuple[str, ...] = setting(
        ("nope", "sinusoidal", "learned(past_end=clamp)", "rotary", "alibi"),
        "for example t5, rotary(base=500000), layers(rotary*3 + nope), stack(rotary, fox), my_file:Mine",
    )
    tasks: tuple[str, ...] = setting(
        ("language", "ordering", "needle"), f"any of {', '.join(TASKS)}, or my_file:MyTask"
    )
    seeds: tuple[int, ...] = setting((0,), "one run per seed; a single number n means 0 to n−1", low=0, high=2**31)
    lengths: tuple[float, ...] = setting(
        (1.0, 2.0, 4.0, 8.0), "test lengths; 1 is always included", "× the trained length", 1, 65536
    )
    blocks: int = setting(
        64,
        "windows of text to test per length, which may overlap; fewer if their last 64 tokens would overlap",
        "windows",
        1,
        1e6,
        axis=False,
    )
    answers: int = setting(256, "sequences to test per length", "sequences", 1, 1e6, axis=False)
    device: str = setting("cpu", "device to train on: cpu, cuda, …", axis=False)


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The settings for the text of the task ``language``."""

    text: Path | None = setting(
        None,
        "file, folder, or .jsonl or .parquet with one text per row; default: posenc's docs as of 2026-11-23",
        kind=Path,
        axis=False,
    )
    tokenizer: str = setting(
        "bytes", "bytes, bpe (trained on the training part), or the path of a tokenizer.json", axis=False
    )
    vocabulary: int = setting(4096, "size of the bpe tokenizer", "tokens", 256, 1e6, axis=False)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The settings of the transformer, which are the same for every encoding."""

    width: int = setting(64, "width of the token embeddings", "channels", 2, 65536)
    layers: int = setting(2, "layers of attention and feed-forward", "layers", 1, 4096)
    heads: int = setting(4, "query heads; width must be a multiple of 2·heads", "heads", 1, 4096)
    kv_heads: int | None = setting(
        None, "key and value heads, a divisor of heads; by default equal to heads", "heads", 1, 4096, kind=int
    )
    hidden: int | None = setting(
        None, "hidden width of the feed-forward part; by default 4·width", "channels", 1, 1048576, kind=int
    )
    norm: str = setting("layer", "norm before attention and before feed-forward", choices=("layer", "rms"))
    activation: str = setting("gelu", "activation of the feed-forward part", choices=("gelu", "swiglu"))
    biases: bool = setting(True, "use biases in linear layers")
    tied: bool = setting(
        False, "share the embedding's weights with the output layer if a task's outputs are its input tokens"
    )
    qk_norm: bool = setting(False, "normalise queries and keys per head before rotation")
    window: int | None = setting(
        None, "sliding-window size, including the token itself; by default none", "tokens", 1, 2**31, kind=int
    )

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, kw_only=True)
class Training:
    """The training settings, which are the same for every task."""

    accumulate: int = setting(1, "batches per optimiser step", "batches", 1, 65536)
    beta1: float = setting(0.9, "AdamW's decay of the mean gradient", low=0, high=0.9999)
    beta2: float = setting(0.98, "AdamW's decay of the mean squared gradient", low=0, high=0.99999)
    weight_decay: float = setting(0.01, "AdamW's weight decay, for weights of linear layers only", low=0, high=10)
    schedule: str = setting("cosine", "learning rate schedule", choices=("cosine", "constant"))
    warm_up: float = setting(0.05, "share of the steps in which the learning rate rises from 0", "", 0, 1)
    floor: float = setting(0.05, "final learning rate of cosine, as a share of the peak", "", 0, 1)
    clip: float = setting(1.0, "largest gradient norm; 0 for no clipping", low=0, high=1e9)
    dtype: str = setting("float32", "dtype of the model", choices=("float32", "float64"))
    autocast: str = setting("none", "autocast dtype; parameters keep their own dtype", choices=("none", "bfloat16"))
    compile: bool = setting(False, "compile the training step: a slower start, then faster steps")


@dataclass(frozen=True, kw_only=True)
class ByTask:
    """The settings of training that may differ by task. By default, each task has its own values."""

    train_length: Any = setting(None, "longest training sequence", "tokens", 2, 2**24, kind=int, by_task=True)
    steps: Any = setting(None, "training steps", "steps", 1, 1e9, kind=int, by_task=True)
    tokens: Any = setting(
        None,
        "training tokens, instead of steps; fewer if sequences are short",
        "tokens",
        1,
        1e15,
        kind=int,
        by_task=True,
    )
    batch: Any = setting(None, "sequences per batch", "sequences", 1, 1e6, kind=int, by_task=True)
    learning_rate: Any = setting(None, "peak learning rate", low=1e-9, high=10, kind=float, by_task=True)


def declared(group: type) -> dict[str, Setting]:
    """Return every setting of a group or a study by name, in order."""
    return {each.name: each.metadata["setting"] for each in fields(group) if "setting" in each.metadata}
