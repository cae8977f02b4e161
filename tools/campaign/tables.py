"""Tables: learned rows and sinusoids, of one axis and of grids, resized, in any type, with gradients."""

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import torch
from tools.campaign.core import Area, Wrong, agree, eps, normal, numpy
from tools.campaign.oracles import tables as oracle
from tools.campaign.oracles.rotation import Array
from torch import Tensor

import posenc
from posenc.encodings import axes as axis_maps
from posenc.encodings.resize import gathered

LAST = 2**31 - 1


@dataclass(frozen=True)
class TableCase:
    """One table, added to token embeddings."""

    seed: int
    kind: str
    width: int
    settings: tuple[tuple[str, Any], ...]
    batch: int
    length: int
    rows: bool
    where: str
    dtype: str
    tables: str
    gradient: bool

    def judge(self) -> None:
        r, o = Random(self.seed), dict(self.settings)
        dtype, at_dtype = getattr(torch, self.dtype), getattr(torch, self.tables)
        x = normal(r, self.batch, self.length, self.width, dtype=dtype).requires_grad_(self.gradient)
        if self.kind == "gathered":
            return judge_gathered(r, o, self.width, self.length)
        encoding, positions = self.build(r, o)
        if at_dtype == torch.float64:
            encoding = encoding.double()
        with torch.no_grad():
            for parameter in encoding.parameters():
                parameter.copy_(normal(r, *parameter.shape))
        placed = encoding.at(positions, dtype=at_dtype)
        y = placed.embed(x)
        rows = self.expected(o, encoding, numpy(positions))
        want = numpy(x) + rows
        if y.dtype != dtype:
            raise Wrong(f"embeddings are {y.dtype}; expected {dtype}")
        farthest = float(positions.abs().max())
        phase = farthest * 2e-19 * (20 if "turns" in o else 1)
        size = float(np.abs(rows).max(initial=0))
        wide = eps(torch.promote_types(dtype, at_dtype))
        taps = 1
        if o.get("resize"):  # rows may cancel, and places round in float64 under slopes of both axes' four taps
            shape = o["num_positions"], o["columns"] or o["num_positions"]
            taps, size = 8, max(float(p.detach().abs().max()) for p in encoding.parameters())
            phase += 6 * sum(shape) * 2.3e-16
        roundings = 4 if "resize" in o else 3.1 if o.get("scale", 1) != 1 else 2.1  # sin, its scale, their product
        exact = roundings * eps(at_dtype) + phase + 1e-15
        # Below the smallest normal number all are equally far apart.
        rounded = np.maximum(np.abs(want), torch.finfo(dtype).smallest_normal)
        allowed = taps * exact * size + (np.abs(want) + size) * wide + rounded * 1.01 * eps(dtype)
        agree("embeddings", y, want, allowed)
        q = normal(r, 1, 2, self.length, 4)
        if not all(torch.equal(a, q) for a in placed.rotate(q, q)):
            raise Wrong("queries are rotated by what embeds alone")
        if self.gradient:
            judge_gradient(r, placed, encoding, x, self, o, numpy(positions))
        return None

    def build(self, r: Random, o: dict[str, Any]) -> tuple[posenc.Encoding, Tensor]:
        """The library's encoding, and positions that it has rows for."""
        shape = (self.batch, self.length) if self.rows else (self.length,)
        if self.kind == "Sinusoidal":
            return posenc.Sinusoidal(self.width, **o), _draw(r, shape, self.where, False)
        if self.kind == "SinusoidalGrid":
            settings = {name: o[name] for name in ("base", "order", "signed")}
            maps = getattr(axis_maps, o["map"])
            axes = maps(*o["sections"], order=o["axis_order"], units=o["units"], turns=o.get("turns", False))
            drawn = _draw(r, (axes.axes, *shape) if axes.axes > 1 else shape, self.where, o["signed"])
            return posenc.SinusoidalGrid(self.width, axes=axes, **settings), drawn
        if self.kind == "Learned":
            count = o["num_positions"]
            top = count + 50 if o["past_end"] == "clamp" else count
            positions = torch.tensor([r.randrange(top) for _ in range(int(np.prod(shape)))]).reshape(shape)
            return posenc.Learned(width=self.width, **o), positions
        picture = o.pop("picture")
        grid = posenc.LearnedGrid(width=self.width, **o)
        o["picture"] = picture
        if o["resize"] is not None:
            grid = grid.resized(*picture)
        cells = [[r.randrange(n) for _ in range(int(np.prod(shape)))] for n in picture]
        return grid, torch.tensor(cells).reshape(2, *shape)

    def expected(self, o: dict[str, Any], encoding: posenc.Encoding, positions: Array, **moved: Array) -> Array:
        """The oracle's rows."""
        if self.kind == "Sinusoidal":
            table = oracle.sinusoids(positions, self.width, o["base"], o["order"], o["spacing"])
            return o["scale"] * table
        if self.kind == "SinusoidalGrid":
            order = o["axis_order"] or range(len(o["sections"]))
            sections = list(zip(order, o["sections"], strict=True))
            own = o["map"] == "axial"
            positions = positions if len(sections) > 1 else positions[None]
            return oracle.grid_sinusoids(
                positions, sections, o["base"], o["order"], own, o["units"], o.get("turns", False)
            )
        weight = moved.get("weight", numpy(next(iter(encoding.parameters()))))
        if self.kind == "Learned":
            return weight[np.minimum(positions, len(weight) - 1)]
        shape = o["num_positions"], o["columns"] or o["num_positions"]
        table = oracle.resized(weight, shape, o["picture"], o["tables"], o["resize"])
        return table[positions[0], positions[1]]


def judge_gradient(
    r: Random,
    placed: posenc.Placed,
    encoding: posenc.Encoding,
    x: Tensor,
    case: TableCase,
    o: dict[str, Any],
    at: Array,
) -> None:
    """A table's gradient: rows are linear in it, so that a step along a direction is its derivative."""
    weight = normal(r, *x.shape, dtype=x.dtype)
    leaves = [x, *encoding.parameters()]
    grads = torch.autograd.grad((placed.embed(x) * weight).sum(), leaves)
    agree("gradient of embeddings", grads[0], numpy(weight), 1e-12)
    for parameter, grad in zip(leaves[1:], grads[1:], strict=True):
        direction = numpy(normal(r, *parameter.shape))
        rows = np.broadcast_to(case.expected(o, encoding, at, weight=direction), x.shape)
        want = float((rows * numpy(weight)).sum())
        got = float((grad * torch.from_numpy(direction)).sum())
        agree("derivative along the table", got, want, 1e-9 * (1 + np.abs(rows).sum()))


def judge_gathered(r: Random, o: dict[str, Any], width: int, length: int) -> None:
    """Rows of one table for tokens of pictures of several sizes at once."""
    N, M = r.randrange(1, 9), r.randrange(1, 9)
    table = normal(r, N, M, width)
    sizes = [(r.randrange(1, 12), r.randrange(1, 12)) for _ in range(length)]
    cells = [(r.randrange(h), r.randrange(w)) for h, w in sizes]
    got = gathered(table, torch.tensor(cells).T, torch.tensor(sizes).T, o["resize"])
    want = np.stack(
        [
            np.einsum(
                "a,b,abc->c",
                oracle.resizing(o["resize"], h, N)[y],
                oracle.resizing(o["resize"], w, M)[x],
                numpy(table),
            )
            for (h, w), (y, x) in zip(sizes, cells, strict=True)
        ]
    )
    agree("gathered rows", got, want, 1e-12)


def _draw(r: Random, shape: tuple[int, ...], where: str, signed: bool) -> Tensor:
    values = []
    for _ in range(int(np.prod(shape))):
        value = {"near": r.randrange(100), "far": LAST - r.randrange(9), "any": r.randrange(LAST + 1)}[where]
        values.append(-value if signed and r.random() < 0.5 else value)
    return torch.tensor(values).reshape(shape)


def draw(r: Random) -> TableCase:
    """A case that the library's contracts admit."""
    kind = r.choice(("Sinusoidal", "SinusoidalGrid", "Learned", "LearnedGrid", "LearnedGrid", "gathered"))
    width, order = r.choice((4, 8, 12)), r.choice(("interleaved", "block"))
    base = r.choice((1e4, 100.0))
    if kind == "Sinusoidal":
        spacing = r.choice(("paper", "tensor2tensor"))
        width = width if spacing == "tensor2tensor" else width - r.randrange(2)
        o: dict[str, Any] = {"base": base, "scale": r.choice((1.0, 0.3)), "order": order, "spacing": spacing}
    elif kind == "SinusoidalGrid":
        A = r.choice((1, 2, 2, 3)) if width > 4 else r.choice((1, 2))
        cuts = sorted(r.sample(range(1, width // 2), A - 1))
        sections = tuple(b - a for a, b in zip((0, *cuts), (*cuts, width // 2), strict=True))
        o = {"map": r.choice(("axial", "chunked")), "sections": sections, "base": base, "order": order}
        o |= {"axis_order": r.choice((None, tuple(r.sample(range(A), A)))), "signed": r.random() < 0.4}
        o |= {"units": r.choice((None, tuple(r.choice(("1/14", "3", "2/7")) for _ in range(A))))}
        o |= {"turns": True} if r.random() < 0.3 else {}
    elif kind == "Learned":
        o = {"num_positions": r.choice((1, 9, 40)), "past_end": r.choice(("error", "clamp"))}
    elif kind == "LearnedGrid":
        rows, columns = r.randrange(1, 9), r.choice((None, r.randrange(1, 9)))
        resize = r.choice((None, *oracle.CONVENTIONS))
        picture = (rows, columns or rows) if resize is None else (r.randrange(1, 15), r.randrange(1, 15))
        o = {"num_positions": rows, "columns": columns, "tables": r.choice(("grid", "sum")), "resize": resize}
        o |= {"picture": picture}
    else:
        o = {"resize": r.choice([name for name, how in oracle.CONVENTIONS.items() if not how[1]])}
    gradient = r.random() < 0.3
    return TableCase(
        seed=r.getrandbits(32),
        kind=kind,
        width=width,
        settings=tuple(o.items()),
        batch=r.choice((1, 2, 3)),
        length=r.choice((1, 2, 7)),
        rows=r.random() < 0.4,
        where=r.choice(("near", "far", "any")),
        dtype="float64" if gradient else r.choice(("float32", "float64", "bfloat16", "float16")),
        tables="float64" if gradient else r.choice(("float32", "float64")),
        gradient=gradient,
    )


AREA = Area("tables", "learned and sinusoidal rows, of one axis and of grids, resized", draw)
