"""A plan: everything that determines the numbers of one run, frozen. Its hash is its id."""

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
"""The version of the computation, raised by hand when a plan gives different numbers or a default changes."""


class Identified(ABC):
    """The base class of plans: an id, which is a hash of their values, and the JSON for ledgers."""

    kind: ClassVar[str]
    numerics: int = NUMERICS

    @property
    @abstractmethod
    def name(self) -> str:
        """The plan's name in messages."""

    @property
    @abstractmethod
    def work(self) -> float:
        """The amount of work, in units of progress."""

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits, which change with any value.

        Fields with their default value are omitted, so that adding or removing a field changes no id. Defaults may
        change only when ``NUMERICS`` is raised.
        """
        defaults = {each.name: each.default for each in fields(self)}  # type: ignore[arg-type]
        differing = {name: value for name, value in self._values().items() if value != defaults.get(name, MISSING)}
        identity = json.dumps({**differing, "numerics": self.numerics}, sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        return json.dumps(self._values(), sort_keys=True)

    def _values(self) -> dict[str, Any]:
        """The kind of the plan, and every field."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


def custom_classes(encoding: str, task: str) -> tuple[str, ...]:
    """The ``module:Class`` names in a run's encoding and task."""
    return parse(encoding).foreign + ((task,) if ":" in task else ())


@dataclass(frozen=True, kw_only=True)
class Plan(Identified, Model, Training):
    """One training and its tests.

    Args:
        encoding: the encoding as text, with the settings that differ from their defaults.
        task: the task's name, or ``module:Class``.
        seed: seed of the initial weights and of training batches, which are the same for every encoding.
        steps, batch, learning_rate: training settings.
        train_length: the longest training sequence, in tokens.
        lengths: test lengths in tokens, ascending from the trained length.
        test_count: test sequences per length.
        device: device of the run; the last bits of numbers differ between devices.
        text_sha256: hash of the text; empty if the task reads none.
        tokenizer: ``bytes``, or the hash of a tokenizer; empty if the task reads no text.
        source: hash of the files of custom classes; empty without custom classes.
        numerics: see ``NUMERICS``.

    The other settings are those of ``Model`` and ``Training``.
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
        """The number of steps."""
        return self.steps

    @classmethod
    def from_json(cls, text: str, id: str) -> "Plan":
        """The plan that ``to_json`` wrote, with its original id.

        Newer fields have their defaults. The encoding's text is not parsed, since its module may no longer exist.
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
            ``"accuracy"`` (share of right answers), ``"refused"`` (the encoding has no value there; ``note`` says
            why), ``"chance"`` and ``"gate"`` (the criteria of runs, at the trained length).
        value: the number; NaN when refused.
        count: the number of targets or answers behind it.
        detail: the numbers for paired statistics: the loss of each block, the loss by position, or the counts of
            right answers and of all answers by tenth of depth.
    """

    length: int
    measure: str
    value: float
    count: int
    detail: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class LossCurve:
    """The loss and gradient norm of every training step, the validation losses, and the training speed.

    Args:
        losses: nats per target of each step, from step 0.
        tokens, seconds: tokens read and time spent in these steps.
        norms: gradient norm of each step before clipping; empty if norms were not recorded.
        validation: pairs of a step and the nats per target after it, always on the same held-out sequences.
        verdict: why the training was stopped early; empty if it was not. A ledger stores it in the run's row.
    """

    losses: tuple[float, ...] = ()
    tokens: int = 0
    seconds: float = 0.0
    norms: tuple[float, ...] = ()
    validation: tuple[tuple[int, float], ...] = ()
    verdict: str = ""

    def then(self, later: "LossCurve") -> "LossCurve":
        """This curve, extended with later steps."""
        return LossCurve(*(getattr(self, each.name) + getattr(later, each.name) for each in fields(self)))

    @property
    def final_loss(self) -> float:
        """The mean loss of the last tenth of the steps; infinite if the training was stopped early."""
        if self.verdict:
            return math.inf
        tail = self.losses[-max(1, len(self.losses) // 10) :]
        return fmean(tail)


@dataclass(frozen=True)
class Run:
    """The result of a plan."""

    plan: Any
    cells: tuple[Cell, ...]
    seconds: float
    parameters: int
    final_loss: float
    created: str = ""
    versions: str = ""
    hardware: str = ""
    verdict: str = ""
    """Why the training was stopped early; empty if it was not. A run that was stopped has no cells."""

    def cell(self, length: int, measure: str) -> Cell | None:
        """The cell of this length and measure, or None if it was not measured."""
        return next((c for c in self.cells if (c.length, c.measure) == (length, measure)), None)
