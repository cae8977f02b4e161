"""A plan: everything that decides the numbers of one run, frozen; its hash is its id."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from posenc.encodings.catalogue import canonical
from posenc.encodings.text import parse

NUMERICS = 2
"""How numbers come about; raised by hand when the same plan gives others than before. 0: before plans held every
setting."""


@dataclass(frozen=True)
class Plan:
    """One training and its tests.

    Args:
        encoding: a text, made short: what differs from defaults is what screens show.
        task: a name in its catalogue.
        seed: of the initial weights and of the order of training batches, the same for every encoding.
        steps, batch, learning_rate: of the training.
        train_length: the longest training sequence, in tokens.
        lengths: test lengths in tokens, ascending, the first being the trained length.
        test_count: test sequences per length.
        width, layers, heads: of the transformer.
        dtype: of parameters and activations.
        device: where it ran; numbers differ in the last bits between devices.
        text_sha256: of the text, empty where the task reads none.
        source: hash of the files that somebody's own class comes from, empty where there is none.
        numerics: see ``NUMERICS``.
        settings: the encoding's full text, every setting said; made from ``encoding``.
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
    source: str = ""
    numerics: int = NUMERICS
    settings: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.numerics:
            recipe = parse(self.encoding)
            object.__setattr__(self, "encoding", str(canonical(recipe)))
            object.__setattr__(self, "settings", str(canonical(recipe, full=True)))

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits that change whenever any field does; of the encoding, its full text counts."""
        values = self._values()
        if self.settings:
            del values["encoding"]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        return f"{self.task}/{self.encoding}/seed {self.seed}"

    def to_json(self) -> str:
        return json.dumps(self._values(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The plan that ``to_json`` wrote, word for word: no text in it is parsed, and no module imported."""
        fields: dict[str, Any] = json.loads(text)
        said = {"settings": fields.pop("settings", ""), "numerics": fields.pop("numerics", 0)}
        plan = cls(**{**fields, "lengths": tuple(fields["lengths"])}, numerics=0)
        for key, value in said.items():
            object.__setattr__(plan, key, value)
        return plan

    def _values(self) -> dict[str, Any]:
        """Every field, in JSON's types; a plan from before ``numerics`` has those, and so the id, that it had."""
        later = ("settings", "source", "numerics")
        return {key: value for key, value in asdict(self).items() if value or key not in later}


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
