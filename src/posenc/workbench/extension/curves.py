"""The curves that extend measures: a method's loss at every position of the same documents."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.workbench.extension.methods import Method
from posenc.workbench.extension.scoring import Scoring
from posenc.workbench.tasks.text import Text


@dataclass(frozen=True)
class MethodLosses:
    """A method's losses: a row per document, a column per bucket of positions.

    ``plan`` is that of the fine-tune before it, under which its weights are kept; None where there was none.
    ``tokens`` are the losses of each token, where they are kept.
    """

    method: Method
    losses: Float[Tensor, "documents buckets"]
    plan: Scoring | None = None
    tokens: Float[Tensor, "documents T"] | None = None

    @property
    def tuned(self) -> bool:
        return self.plan is not None

    @property
    def label(self) -> str:
        return self.method.label + (", tuned" if self.tuned else "")


@dataclass(frozen=True)
class Extension:
    """What was measured.

    Args:
        width: positions of one bucket; bucket i holds i·width … (i+1)·width − 1.
        curves: zero-shot first, then fine-tuned, in the order of the methods.
        window: the losses on the last ``far`` buckets' targets, each read with the last trained length of the text
            alone.
        identity: hash of the model's weights, or the id of the study's run.
        finetune: steps before the tuned curves.
        hardware: that the numbers were made on, as their runs say.
        positions: of the windows that the fine-tunes read, as ``Request`` has them.
        key: the key tokens of LongPPL, None where none were asked for.
        evaluator: what named them, as ``longppl.Evaluator.as_json`` has it.
    """

    model: str
    unit: str
    original_length: int
    length: int
    width: int
    curves: tuple[MethodLosses, ...]
    window: Float[Tensor, "documents far"]
    text: Text
    finetune: int = 0
    hardware: tuple[str, ...] = ()
    identity: str = ""
    positions: str = "counted"
    key: Bool[Tensor, "documents T"] | None = None
    evaluator: dict[str, Any] = field(default_factory=dict)

    @property
    def tuning(self) -> str:
        """The fine-tune in words."""
        return f"{self.finetune} step{'s' if self.finetune > 1 else ''} of tuning" + (
            ", positions drawn by PoSE" if self.positions == "pose" else ""
        )

    @property
    def plain(self) -> MethodLosses:
        """Of the model as it is: under the scaling that it was configured with, if any."""
        by_name = {curve.method.name: curve for curve in self.curves if not curve.tuned}
        return by_name.get("own") or by_name["none"]

    @property
    def inside(self) -> int:
        """Buckets that lie within the trained length."""
        return self.original_length // self.width

    @property
    def far(self) -> int:
        """Buckets at the end that methods are judged by: a trained length of them, or all past it."""
        return min(self.inside, self.length // self.width - self.inside)

    @property
    def lengths(self) -> list[int]:
        """The columns of every table: the trained length, its doublings, and the whole length."""
        start = self.inside * self.width
        return [*(start << i for i in range(64) if start << i < self.length), self.length]

    def by_length(self, losses: Float[Tensor, "documents buckets"]) -> Float[Tensor, "documents lengths"]:
        """Means of the positions before each of ``lengths``: a trained length of them, or ``far`` at the end."""
        parts = [losses[:, : n // self.width][:, -self.inside :] for n in self.lengths[:-1]]
        return torch.stack([part.mean(1) for part in (*parts, losses[:, -self.far :])], 1)
