"""Every law, held against encodings drawn at random; and ``posenc.check`` against some that are wrong."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import torch
from tools.campaign import attention
from tools.campaign.core import Area, Wrong
from tools.campaign.oracles.attention import Spec

import posenc
from posenc import Encoding, Placed
from posenc.encodings.placed import KeyPositions, Positions
from posenc.laws.check import Report, verdict
from posenc.laws.law import Law
from posenc.laws.subject import Subject

TESTS = Path(__file__).parents[2] / "tests"


class Wave(Encoding):
    """ALiBi of four heads, by whatever makes a bias of distances."""

    name = "wave"
    acts_on = ("bias",)
    relative = True

    def __init__(self, values: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.values = values

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        bias = posenc.OffsetBias(self.values, 4, q_positions, k_positions)
        return Placed(q_positions, k_positions, bias=bias)


def _slopes(offsets: torch.Tensor) -> torch.Tensor:
    return -torch.tensor([0.5, 0.25, 0.125, 0.0625]).view(4, *[1] * offsets.dim()) * offsets.abs()


def _absolute(offsets: torch.Tensor) -> torch.Tensor:
    """Of the place in the tensor and not of the offset."""
    return _slopes(torch.arange(offsets.shape[-1]).expand(offsets.shape))


def _random(offsets: torch.Tensor) -> torch.Tensor:
    return _slopes(offsets) + 0.01 * torch.randn(4, *offsets.shape)


WAVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "distances rounded to float16": lambda offsets: _slopes(offsets.half()).float(),
    "distances rounded to bfloat16": lambda offsets: _slopes(offsets.bfloat16()).float(),
    "not a number ahead": lambda offsets: _slopes(offsets) + (offsets > 0) * torch.nan,
    "noise in every call": _random,
    "the row of the tensor": _absolute,
    "a constant": lambda offsets: torch.zeros(4, *offsets.shape),
}
"""Mistakes that people make in a bias of their own; a wrong sign or slope is none, as no law knows the formula."""


@cache
def plumbing() -> tuple[Law, ...]:
    """Laws that only the project's own tests hold: copies of what was placed, loading, modes, tracers."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from support import plumbing as own  # type: ignore[import-not-found]

    return tuple(own.LAWS)


@dataclass(frozen=True)
class CheckCase:
    """One encoding, and whether it is right."""

    seed: int
    wrong: str | None
    spec: Spec

    def judge(self) -> None:
        torch.manual_seed(self.seed)
        right = self.wrong is None
        encoding = attention.build(self.spec, 4, 8) if self.wrong is None else Wave(WAVES[self.wrong])
        broken = posenc.check(encoding).broken
        if not right and not broken:
            raise Wrong(f"no law finds fault with {self.wrong}")
        if right:
            subject = Subject.of(encoding)
            own = Report(subject.name, tuple(verdict(law, subject, compiled=False) for law in plumbing()))
            if broken := (*broken, *own.broken):
                raise Wrong("; ".join(f"{v.law}: {v.outcome}, {v.detail}" for v in broken))


def draw(r: Random) -> CheckCase:
    """One wrong one for every three right ones."""
    wrong = r.choice([*WAVES]) if r.random() < 0.25 else None
    spec = attention.draw_spec(r, 4, 2)  # laws let two heads share keys, and stand far apart on every axis
    # Nor few units of FIRE: all may be off, and what then is constant is not what FIRE declares.
    while any("size" in leaf.options or leaf.options.get("units", 8) < 8 for leaf in spec.flat()):
        spec = attention.draw_spec(r, 4, 2)
    return CheckCase(r.getrandbits(32), wrong, spec)


AREA = Area("check", "wrong encodings of many kinds are flagged, and right ones are not", draw)
