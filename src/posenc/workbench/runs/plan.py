"""A plan: everything that decides the numbers of one run, frozen; its hash is its id."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from posenc.names import canonical


@dataclass(frozen=True)
class Plan:
    """One training and its tests.

    Args:
        encoding, task: names in their catalogues.
        seed: of the initial weights and of the order of training batches, the same for every encoding.
        steps, batch, learning_rate: of the training.
        train_length: the longest training sequence, in tokens.
        lengths: test lengths in tokens, ascending, the first being the trained length.
        test_count: test sequences per length.
        width, layers, heads: of the transformer.
        dtype: of parameters and activations.
        device: where it ran; numbers differ in the last bits between devices.
        text_sha256: of the text, empty where the task reads none.
    """

    encoding: str
    task: str
    seed: int
    steps: int
    batch: int
    learning_rate: float
    train_length: int
    lengths: tuple[int, ...]
    test_count: int
    width: int = 64
    layers: int = 2
    heads: int = 4
    dtype: str = "float32"
    device: str = "cpu"
    text_sha256: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", canonical(self.encoding))

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits that change whenever any field does."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        return f"{self.task}/{self.encoding}/seed {self.seed}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "lengths": tuple(fields["lengths"])})


@dataclass(frozen=True)
class Cell:
    """One measured number of a run: a measure at a test length.

    Args:
        measure: ``"loss"`` (nats per fixed target), ``"window_loss"`` (nats per byte of whole windows),
            ``"accuracy"`` (share right), ``"refused"`` (the encoding has no value there; ``note`` says why).
        value: the number; NaN when refused.
        count: targets or answers behind it.
        detail: numbers behind it that later statistics pair up: the loss of each block, or the loss by
            position, or right and asked-for answers by tenth of depth.
    """

    length: int
    measure: str
    value: float
    count: int
    detail: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Run:
    """What a plan left behind."""

    plan: Plan
    cells: tuple[Cell, ...]
    seconds: float
    parameters: int
    final_loss: float
    created: str = ""
    versions: str = ""
    hardware: str = ""

    def cell(self, length: int, measure: str) -> Cell | None:
        """The cell of that length and measure, if it was measured."""
        return next((c for c in self.cells if (c.length, c.measure) == (length, measure)), None)
