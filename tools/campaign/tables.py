"""Tables: learned rows and sinusoids, of one axis and of grids, resized, in any type."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch
from tools.campaign.core import Area, Case, agree, eps, normal, numpy
from tools.campaign.oracles import tables as oracle
from tools.campaign.oracles.rotation import Array
from torch import Tensor

import posenc
from posenc.encodings import axes as axis_maps
from posenc.laws.law import owed


class TableCase(Case):
    """One table, added to token embeddings."""

    def judge(self) -> None:
        r, o = Random(self.seed), self.settings
        dtype, at_dtype = getattr(torch, self.dtype), getattr(torch, self.tables)
        x = normal(r, self.batch, self.length, self.width, dtype=dtype)
        encoding = self.build()
        encoding = encoding.double() if at_dtype == torch.float64 else encoding
        for parameter in encoding.parameters():
            parameter.data.copy_(normal(r, *parameter.shape))
        if o.get("resize"):
            encoding = encoding.resized(*self.picture)
        positions = self.draw_positions(r, encoding)
        y = encoding.at(positions, dtype=at_dtype).embed(x)
        owed(y.dtype == dtype, f"embeddings are {y.dtype}; expected {dtype}")
        weight = numpy(next(iter(encoding.parameters()), torch.zeros(())))
        rows = self.expected(weight, numpy(positions))
        want = numpy(x) + rows
        phase = float(positions.abs().max()) * 2e-19 * (20 if self.axes.get("turns") else 1)
        size, taps = float(np.abs(rows).max()), 1
        if o.get("resize"):  # rows may cancel, and places round in float64 under slopes of both axes' four taps
            taps, size = 8, float(np.abs(weight).max())
            phase += 6 * (o["num_positions"] + (o["columns"] or o["num_positions"])) * 2.3e-16
        roundings = 4 if "resize" in o else 3.1 if o.get("scale", 1) != 1 else 2.1  # sin, its scale, their product
        exact = roundings * eps(at_dtype) + phase + 1e-15
        # Below the smallest normal number all are equally far apart.
        rounded = np.maximum(np.abs(want), torch.finfo(dtype).smallest_normal) * 1.01 * eps(dtype)
        wide = (np.abs(want) + size) * eps(torch.promote_types(dtype, at_dtype))
        agree("embeddings", y, want, taps * exact * size + wide + rounded)

    def build(self) -> posenc.Encoding:
        """The library's module, before it is resized."""
        more = dict(self.settings)
        if self.axes:
            maker = getattr(axis_maps, self.axes["map"])
            more["axes"] = maker(*self.axes["sections"], **{name: self.axes[name] for name in GIVEN})
        module: posenc.Encoding = getattr(posenc, self.kind)(width=self.width, **more)
        return module

    def draw_positions(self, r: Random, encoding: posenc.Encoding) -> Tensor:
        """Such as the table has rows for."""
        shape = (self.batch, self.length) if self.rows else (self.length,)
        count, tops = int(np.prod(shape)), [encoding.position_limit] * encoding.axes
        if self.kind == "LearnedGrid":
            tops = [*self.picture]
        if self.settings.get("past_end") == "clamp":
            tops = [self.settings["num_positions"] + 50]
        ranges = [
            {"near": range(min(100, top)), "far": range(max(top - 9, 0), top)}.get(self.where, range(top))
            for top in tops
        ]
        values = torch.tensor([r.choices(places, k=count) for places in ranges])
        signs = torch.tensor(r.choices((1, -1), k=count))
        values = values * signs if self.settings.get("signed") else values
        return values.reshape((*shape,) if len(tops) == 1 else (len(tops), *shape))

    def expected(self, weight: Array, positions: Array) -> Array:
        """The oracle's rows."""
        o, axes = self.settings, self.axes
        if self.kind == "Sinusoidal":
            return o["scale"] * oracle.sinusoids(positions, self.width, o["base"], o["order"], o["spacing"])
        if self.kind == "SinusoidalGrid":
            sections = list(zip(axes["order"] or range(len(axes["sections"])), axes["sections"], strict=True))
            at = positions if len(sections) > 1 else positions[None]
            own = axes["map"] == "axial"
            return oracle.grid_sinusoids(at, sections, o["base"], o["order"], own, axes["units"], axes["turns"])
        if self.kind == "Learned":
            return weight[np.minimum(positions, len(weight) - 1)]
        shape = o["num_positions"], o["columns"] or o["num_positions"]
        return oracle.resized(weight, shape, self.picture, o["tables"], o["resize"])[positions[0], positions[1]]


GIVEN = ("order", "units", "turns")


def draw_axes(r: Random, pairs: int) -> dict[str, Any]:
    A = r.randrange(1, min(pairs, 3) + 1)
    cuts = sorted(r.sample(range(1, pairs), A - 1))
    return {
        "map": r.choice(("axial", "chunked")),
        "sections": tuple(b - a for a, b in zip((0, *cuts), (*cuts, pairs), strict=True)),
        "order": r.choice((None, tuple(r.sample(range(A), A)))),
        "units": r.choice((None, tuple(r.choice(("1/14", "3", "2/7")) for _ in range(A)))),
        "turns": r.random() < 0.3,
    }


KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "Sinusoidal": lambda r: {
        "base": r.choice((1e4, 100.0)),
        "scale": r.choice((1.0, 0.3)),
        "order": r.choice(("interleaved", "block")),
        "spacing": r.choice(("paper", "tensor2tensor")),
    },
    "SinusoidalGrid": lambda r: {
        "base": r.choice((1e4, 100.0)),
        "order": r.choice(("interleaved", "block")),
        "signed": r.random() < 0.4,
    },
    "Learned": lambda r: {"num_positions": r.choice((1, 9, 40)), "past_end": r.choice(("error", "clamp"))},
    "LearnedGrid": lambda r: {
        "num_positions": r.randrange(1, 9),
        "columns": r.choice((None, r.randrange(1, 9))),
        "tables": r.choice(("grid", "sum")),
        "resize": r.choice((None, *oracle.CONVENTIONS)),
    },
}


def draw(r: Random) -> TableCase:
    """A case that the library's contracts admit."""
    kind, width = r.choice((*KINDS, "LearnedGrid")), r.choice((4, 8, 12))
    settings = KINDS[kind](r)
    axes = draw_axes(r, width // 2) if kind == "SinusoidalGrid" else {}
    odd = kind == "Sinusoidal" and settings["spacing"] == "paper" and r.random() < 0.5
    rows = settings.get("num_positions", 1)
    picture = r.randrange(1, 15), r.randrange(1, 15)
    return TableCase(
        seed=r.getrandbits(32),
        kind=kind,
        width=width - odd,
        settings=settings,
        axes=axes,
        picture=picture if settings.get("resize") else (rows, settings.get("columns") or rows),
        batch=r.choice((1, 2, 3)),
        length=r.choice((1, 2, 7)),
        rows=r.random() < 0.4,
        where=r.choice(("near", "far", "any")),
        dtype=r.choice(("float32", "float64", "bfloat16", "float16")),
        tables=r.choice(("float32", "float64")),
    )


AREA = Area("tables", "learned and sinusoidal rows, of one axis and of grids, resized", draw)
