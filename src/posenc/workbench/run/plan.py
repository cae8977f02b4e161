"""The plan of a run: everything that determines the run's results, except the machine and the versions of Python,
torch and posenc. A hash of the plan is its id."""

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
"""The version of posenc's computations. Increase it when a change of code alters a plan's results, or when a
default changes."""


@dataclass(frozen=True, kw_only=True)
class Identified(ABC):
    """The base class of plans. It computes a plan's id, a hash of the plan's values. It also writes the plan as
    JSON for ledgers."""

    kind: ClassVar[str]
    numerics: int = NUMERICS

    @property
    @abstractmethod
    def name(self) -> str:
        """The plan's name in messages."""

    @cached_property
    def id(self) -> str:
        """A hash of all values that differ from their defaults, as sixteen hexadecimal digits.

        If a field is added or removed later, plans in which this field has its default value keep their id. The
        hash always covers ``numerics``, the version of posenc's computations, which must be increased when a
        default changes; see ``NUMERICS``.
        """
        defaults = {each.name: each.default for each in fields(self)}
        differing = {name: value for name, value in self._values().items() if value != defaults.get(name, MISSING)}
        identity = json.dumps({**differing, "numerics": self.numerics}, sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        return json.dumps(self._values(), sort_keys=True)

    def _values(self) -> dict[str, Any]:
        """Return the kind of the plan and the value of every field."""
        return {"kind": self.kind, **asdict(self)}


def custom_classes(encoding: str, task: str) -> tuple[str, ...]:
    """Return the ``module:Class`` names in a run's encoding and task."""
    return parse(encoding).foreign + ((task,) if ":" in task else ())


@dataclass(frozen=True, kw_only=True)
class Plan(Identified, Model, Training):
    """One training run and its tests.

    Args:
        encoding: the encoding as text, with the settings that differ from their defaults.
        task: the task's name, or ``module:Class``.
        seed: seed of the initial weights and of the training batches; both are the same for every encoding.
        steps, batch, learning_rate: training settings.
        train_length: the longest training sequence, in tokens.
        lengths: test lengths in tokens, sorted, starting with the trained length.
        test_count: test sequences per length.
        device: device of the run, which belongs to the plan because the last bits of results differ by device.
        text_sha256: hash of the text; empty if the task reads no text.
        tokenizer: ``bytes``, or the hash of a tokenizer; empty if the task reads no text.
        source: hash of the files of custom classes; empty without custom classes.

    All further settings come from ``Model`` and ``Training``.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", canonical_text(self.encoding))

    @property
    def name(self) -> str:
        return f"{self.task}/{self.encoding}/seed {self.seed}"

    @property
    def tokens(self) -> int:
        """The number of tokens in all training batches, if every sequence has the trained length; else an upper
        bound."""
        return self.steps * self.batch * self.accumulate * self.train_length

    @classmethod
    def from_json(cls, text: str, id: str) -> "Plan":
        """Restore a plan from the output of ``to_json``, with its original id.

        Fields that are newer than the plan get their default values. The encoding's text is not parsed, because its
        module may no longer exist.
        """
        values: dict[str, Any] = json.loads(text)
        plan = object.__new__(cls)
        vars(plan).update(
            {each.name: each.default for each in fields(cls)} | values, lengths=tuple(values["lengths"]), id=id
        )
        return plan


@dataclass(frozen=True)
class Cell:
    """One measured value of a run: one measure at one test length.

    Args:
        measure: the name of the measure. Losses are in nats per target.

            - ``"loss"``: the loss on the targets that tests of all lengths share.
            - ``"window_loss"``: the loss on all targets of the test windows.
            - ``"loss_by_position"``: the loss on the last 64 positions.
            - ``"accuracy"``: the share of right answers.
            - ``"accuracy_by_depth"``: the same value as ``"accuracy"``; ``detail`` has the accuracy at each depth.
            - ``"exact_match"``: the share of sequences with only right answers.
            - ``"refused"``: the encoding does not support this length; ``note`` has the reason.
            - ``"chance"``, ``"gate"``: the task's chance level and gate (see ``Criteria``). A run has one cell for
              each, at the trained length.
            - ``"document 3"``, or another document number: the loss of ``posenc extend`` on this document, or the
              share of key tokens in the document.
        value: the measured value; NaN for ``"refused"``.
        count: the number of targets or answers from which the value was computed.
        detail: finer values of the same measure. Losses are stored for each test window, or for each block of
            positions. Shares of right answers are stored for each sequence, or for the answers in each tenth of the
            sequence.
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
        losses: loss of each step in nats per target, from step 0.
        tokens, seconds: the number of tokens read in these steps, and the time taken.
        norms: gradient norm of each step before clipping; empty if norms were not recorded.
        validation: pairs of a step and the loss after this step in nats per target, on the same held-out sequences
            each time.
        verdict: the reason if training was stopped early, else empty. A ledger stores the verdict in the run's row.
    """

    losses: tuple[float, ...] = ()
    tokens: int = 0
    seconds: float = 0.0
    norms: tuple[float, ...] = ()
    validation: tuple[tuple[int, float], ...] = ()
    verdict: str = ""

    def then(self, later: "LossCurve") -> "LossCurve":
        """Return this curve, extended with later steps."""
        return LossCurve(*(getattr(self, each.name) + getattr(later, each.name) for each in fields(self)))

    @property
    def final_loss(self) -> float:
        """The mean loss of the last tenth of the steps; infinite if training was stopped early."""
        return math.inf if self.verdict else fmean(self.losses[-max(1, len(self.losses) // 10) :])


@dataclass(frozen=True)
class Run:
    """The result of a plan."""

    plan: Any
    cells: tuple[Cell, ...]
    seconds: float
    parameters: int
    final_loss: float
    versions: str = ""
    hardware: str = ""
    verdict: str = ""
    """The reason if training was stopped early, else empty. A run that was stopped early has no cells."""

    def cell(self, length: int, measure: str) -> Cell | None:
        """Return the cell of this length and measure, or None if there is no such measurement."""
        return next((c for c in self.cells if (c.length, c.measure) == (length, measure)), None)
