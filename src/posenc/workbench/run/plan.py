"""A plan: everything that decides the numbers of one run, frozen; its hash is its id."""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar

from posenc.encodings.catalogue import canonical_text
from posenc.encodings.text import parse
from posenc.workbench.run.settings import Model, Training

NUMERICS = 4
"""How numbers come about; raised by hand when the same plan gives others than before, or a default changes."""


class Identified(ABC):
    """What plans of every kind have: an id, which is a hash of their values, and the JSON that ledgers hold."""

    kind: ClassVar[str]
    numerics: int = NUMERICS

    @property
    @abstractmethod
    def name(self) -> str:
        """For people."""

    @property
    @abstractmethod
    def work(self) -> float:
        """The amount of work, in the unit of this kind's progress."""

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits that change whenever any value does.

        A field that has its default is left out, so that a field that is added or removed changes no id. A default
        stays what it was when the field came, until ``NUMERICS`` is raised.
        """
        defaults = {each.name: each.default for each in fields(self)}  # type: ignore[arg-type]
        differing = {name: value for name, value in self._values().items() if value != defaults.get(name, MISSING)}
        identity = json.dumps({**differing, "numerics": self.numerics}, sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        return json.dumps(self._values(), sort_keys=True)

    def _values(self) -> dict[str, Any]:
        """The kind and every field."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


def custom_classes(encoding: str, task: str) -> tuple[str, ...]:
    """The ``module:Class`` names that a run needs, of parts of its encoding and of its task."""
    return parse(encoding).foreign + ((task,) if ":" in task else ())


@dataclass(frozen=True, kw_only=True)
class Plan(Identified, Model, Training):
    """One training and its tests.

    Args:
        encoding: its name, and the settings that differ from their defaults.
        task: its name, or ``module:Class``.
        seed: of the initial weights and of the order of training batches, the same for every encoding.
        steps, batch, learning_rate: of the training.
        train_length: the longest training sequence, in tokens.
        lengths: test lengths in tokens, ascending, the first being the trained length.
        test_count: test sequences per length.
        device: where it ran; numbers differ in the last bits between devices.
        text_sha256: of the text, empty where the task reads none.
        tokenizer: what it was cut with: ``bytes``, or the hash of a tokenizer; empty where the task reads none.
        source: hash of the files of custom classes, empty where there is none.
        numerics: see ``NUMERICS``.

    The model and how it learns are settings of ``Model`` and ``Training``.
    """

    kind: ClassVar[str] = "training"
    encoding: str
    task: str
    seed: int
    steps: int
    batch: int
    learning_rate: float
    train_length: int
    lengths: tuple[int, ...]
    test_count: int
    device: str = "cpu"
    text_sha256: str = ""
    tokenizer: str = ""
    source: str = ""
    numerics: int = NUMERICS

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", canonical_text(self.encoding))

    @property
    def name(self) -> str:
        return f"{self.task}/{self.encoding}/seed {self.seed}"

    @property
    def work(self) -> float:
        """Steps."""
        return self.steps

    @classmethod
    def from_json(cls, text: str, id: str) -> "Plan":
        """The plan that ``to_json`` wrote, under the id that it had.

        Fields that came since have their defaults. The encoding's text is neither parsed nor imported: its module
        may be gone.
        """
        values: dict[str, Any] = json.loads(text)
        plan = object.__new__(cls)
        vars(plan).update({each.name: each.default for each in fields(cls)})
        vars(plan).update(values, lengths=tuple(values["lengths"]), id=id)
        return plan


@dataclass(frozen=True)
class Cell:
    """One measured number of a run: a measure at a test length.

    Args:
        measure: ``"loss"`` (nats per fixed target), ``"window_loss"`` (nats per target of whole windows),
            ``"accuracy"`` (share right), ``"refused"`` (the encoding has no value there; ``note`` says why),
            ``"chance"`` and ``"gate"`` (by which runs are judged, at the trained length).
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
class LossCurve:
    """The loss and gradient norm of every step of a training, its validation losses, and how fast it read.

    Args:
        losses: nats per target, from step 0.
        tokens, seconds: read and spent in its steps.
        norms: of each step's gradient before it was clipped; empty where they were not noted.
        validation: step and nats per target after it, on the same held-out sequences each time.
        verdict: why the training was broken off, if it was; a ledger holds it in the run's row.
    """

    losses: tuple[float, ...] = ()
    tokens: int = 0
    seconds: float = 0.0
    norms: tuple[float, ...] = ()
    validation: tuple[tuple[int, float], ...] = ()
    verdict: str = ""

    def then(self, later: "LossCurve") -> "LossCurve":
        """This curve with the steps that came after it."""
        return LossCurve(*(getattr(self, each.name) + getattr(later, each.name) for each in fields(self)))

    @property
    def final_loss(self) -> float:
        """The mean of the last tenth; infinite if the training was broken off."""
        if self.verdict:
            return math.inf
        tail = self.losses[-max(1, len(self.losses) // 10) :]
        return fmean(tail)


@dataclass(frozen=True)
class Run:
    """The result of a plan, of whichever kind."""

    plan: Any
    cells: tuple[Cell, ...]
    seconds: float
    parameters: int
    final_loss: float
    created: str = ""
    versions: str = ""
    hardware: str = ""
    verdict: str = ""
    """Why the training was broken off, where it was; such a run has no cells."""

    def cell(self, length: int, measure: str) -> Cell | None:
        """The cell of that length and measure, if it was measured."""
        return next((c for c in self.cells if (c.length, c.measure) == (length, measure)), None)
