"""Cases of attention, with all encodings that change scores and all masks, in float64."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tools.campaign.core import Area, Case, agree, normal, numpy
from tools.campaign.oracles.attention import Inputs, Spec, attend, axes_of
from torch import Tensor

import posenc

Array = np.ndarray
WIDTH = 12
"""The number of channels of the token inputs that content-based encodings read."""

SIZES: dict[str, Callable[[int], int]] = {
    "posenc.attend.ways.SHORT_DOCUMENT": lambda rows: 1,
    "posenc.attend.ways.SHORT_ROW": lambda rows: 1,
    "posenc.attend.ways.SHORT_PLAIN_ROW": lambda rows: 1,
    "posenc.attend.blocks.ROWS": lambda rows: rows,
    "posenc.attend.blocks.TRAINING_ROWS": lambda rows: 2 * rows,
}
"""The thresholds above which the library uses documents and blocks, lowered so that small cases use both."""

BEHIND = {"FIRE", "Inkling"}
"""The encodings whose formula applies only to keys at or before the query's position."""
CAUSAL = BEHIND | {"FoX", "CoPE"}

KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "NoPE": lambda r: {},
    "ALiBi": lambda r: {"max_exponent": r.choice((8.0, 4.0, 2.5))},
    "T5": lambda r: {
        **_buckets(r, (4, 8, 12, 32), (0, 1, 5, 100)),
        "two_sided": r.random() < 0.5,
        "std": 1.0,
    },
    "Kerple": lambda r: {"kernel": r.choice(("log", "power"))},
    "FIRE": lambda r: {"units": r.choice((1, 3, 8)), "nearest": r.choice((3.5, 20.0, 512.0))},
    "Sandwich": lambda r: {
        "channels": r.choice((2, 8, 64)),
        "first": r.randrange(2),
        "base": r.choice((1e4, 50.0)),
    },
    "Window": lambda r: {"size": r.choice(((5, 5), (3, 7), (2, 3, 4))), "std": 1.0},
    "Decomposed": lambda r: {"size": r.choice(((5, 5), (3, 7))), "std": 0.7},
    "LayoutLM": lambda r: {"buckets": (8, 8, 12), "max_distance": (9, 20, 30), "std": 1.0},
    "Shaw": lambda r: {
        **r.choice(({"behind": 0, "ahead": 2}, {"behind": 1, "ahead": 0}, {"behind": 3}, {"behind": 64})),
        "std": 0.7,
    },
    "TransformerXL": lambda r: {"width": r.choice((2, 8)), "order": r.choice(("interleaved", "block"))},
    "DeBERTa": lambda r: {**_buckets(r, (4, 6, 8, 16), (0, 1, 9)), "std": 0.7},
    "CoPE": lambda r: {"positions": r.choice((2, 3, 4, 16)), "std": 0.7},
    "Inkling": lambda r: {
        "width": WIDTH,
        "extent": r.choice((1, 3, 50)),
        "basis": r.choice((1, 3)),
        "log_floor": r.choice((None, 1, 6)),
        "clip": r.choice((None, 0.5)),
        "std": 0.7,
    },
    "FoX": lambda r: {"width": WIDTH, "bias": r.choice((0.0, 3.0))},
    "QueryScale": lambda r: {
        "rule": r.choice(("llama4", "ministral3", "beam", "inkling")),
        "amount": r.choice((0.1, 0.6)),
        "floor": r.choice((2, 5)),
    },
    "SSMax": lambda r: {"length": r.choice((4, 1024)), "offset": r.random() < 0.5},
    "Rotary": lambda r: {"pairing": r.choice(("half", "interleaved")), "base": r.choice((1e4, 100.0))},
}
"""All classes, with settings that change their formulas."""
BUCKETED = ("T5", "Kerple")
BIASED = (*BUCKETED, "ALiBi", "FIRE", "Sandwich", "FoX", "Inkling")
STACKS = {
    "Rotary": (*BIASED, "Shaw", "CoPE"),
    "QueryScale": (*BUCKETED, "ALiBi"),
    "SSMax": (*BUCKETED, "ALiBi"),
    "ALiBi": (*BUCKETED, "Sandwich", "FoX"),
    "FoX": (*BUCKETED, "Sandwich"),
}
"""The pairs of encodings that are stacked."""
HEADLESS = {"NoPE", "QueryScale", "Rotary"}
DIMMED = {"Decomposed", "Shaw", "TransformerXL", "DeBERTa", "CoPE", "Rotary"}


def _buckets(r: Random, buckets: tuple[int, ...], more: tuple[int, ...]) -> dict[str, Any]:
    count = r.choice(buckets)
    return {"buckets": count, "max_distance": count + r.choice(more)}


def build(spec: Spec, heads: int, head_dim: int) -> posenc.Encoding:
    """Return the library's module for a spec."""
    if spec.kind == "Stack":
        return posenc.Stack(*(build(part, heads, head_dim) for part in spec.parts))
    of_heads = {} if spec.kind in HEADLESS else {"heads": heads}
    of_channels = {"head_dim": head_dim} if spec.kind in DIMMED else {}
    module: posenc.Encoding = getattr(posenc, spec.kind)(**spec.options, **of_heads, **of_channels)
    return module


def draw_spec(r: Random) -> Spec:
    """Draw one encoding, or a stack of two."""
    first = r.choice((*STACKS, *KINDS, *KINDS, *KINDS))
    kinds = (first, r.choice(STACKS[first])) if first in STACKS and r.random() < 0.6 else (first,)
    parts = tuple(Spec(kind, tuple(KINDS[kind](r).items())) for kind in kinds)
    return parts[0] if len(parts) == 1 else Spec("Stack", parts=parts)


class AttentionCase(Case):
    """A call of attention."""

    def judge(self) -> None:
        scene = Scene(self)
        want, largest = scene.expected()
        with small_blocks(self.rows):
            got = scene.attention()
        rounding = 5e-15 + 1e-16 * float(scene.k_positions.max())
        agree("output", got, want, rounding * (2 + largest) * (1 + float(scene.v.abs().max())))

    def build(self) -> posenc.Encoding:
        """Return the library's module."""
        return build(self.spec, self.kv_heads * self.group, self.head_dim)


@contextmanager
def small_blocks(rows: int | None) -> Iterator[None]:
    """Lower the library's thresholds so that blocks and documents of a few tokens are used."""
    with ExitStack() as stack:
        for where, small in SIZES.items() if rows else ():
            stack.enter_context(patch(where, small(rows)))
        yield


class Scene:
    """The tensors of a case, for the library and for the oracle."""

    def __init__(self, case: AttentionCase) -> None:
        self.case, self.random = case, Random(case.seed)
        r, B, S, T = self.random, case.batch, case.keys, case.queries
        heads = case.kv_heads * case.group
        self.encoding = case.build().double()
        for name, parameter in self.encoding.named_parameters():
            std = {"outer": 0.7, "inner": 1.5, "curves": 0.7}.get(name.rpartition(".")[2], 0.5)
            parameter.data.copy_(normal(r, *parameter.shape, std=std))
        self.rows = torch.arange(S - T, S) if case.place == "end" else torch.tensor(r.sample(range(S), T))
        self.order = torch.arange(S).expand(B, S)
        if case.place == "any":
            self.order = torch.stack([torch.tensor(r.sample(range(2 * S), S)) for _ in range(B)])
        self.segments = self._documents()
        self.key_mask = self._padding()
        self.k_positions = self._positions()
        self.q_positions = self.k_positions[..., self.rows]
        self.q = normal(r, B, heads, T, case.head_dim)
        self.k = normal(r, B, case.kv_heads, S, case.head_dim)
        self.v = normal(r, B, case.kv_heads, S, r.choice((case.head_dim, 3)))
        self.x = normal(r, B, S, WIDTH)

    def _documents(self) -> Tensor | None:
        r, B, S = self.random, self.case.batch, self.case.keys
        names = r.sample((0, 1, -7, 2**32, 2**32 + 1, 5 - 2**32, 2**62, 3), r.randrange(1, 5))
        drawn = torch.tensor(r.choices(names, k=B * S)).view(B, S)
        if self.case.documents == "ends":
            drawn = drawn.sort(-1).values
        return None if self.case.documents == "none" else drawn

    def _padding(self) -> Tensor | None:
        r, B, S = self.random, self.case.batch, self.case.keys
        if self.case.padding == "none":
            return None
        if self.case.padding == "left":
            return torch.arange(S) >= torch.tensor(r.choices(range(S), k=B))[:, None]
        mask = torch.tensor(r.choices((True, True, False), k=B * S)).view(B, S)
        if self.case.causal and self.case.place == "end" and self.case.queries < S:
            mask[:, -1] = True  # a cache with an empty last slot is refused
        return mask

    def _positions(self) -> Tensor:
        r, case, plain = self.random, self.case, torch.arange(self.case.keys)
        B, S, axes = case.batch, case.keys, axes_of(case.spec)
        if axes > 1:
            sizes = case.spec.options.get("size", (40, 40, 40))
            of_axes = torch.tensor([r.choices(range(size), k=B * S) for size in sizes]).view(axes, B, S)
            return of_axes[:, 0] if case.positions == "plain" else of_axes
        starts = [n for n in (1, 17, 4090, 70_000, 1_000_000) if n + S <= self.encoding.position_limit]
        drawn: dict[str, Callable[[], Tensor]] = {
            "plain": lambda: plain,
            "offset": lambda: plain + r.choice(starts),
            "rows": lambda: plain + torch.tensor(r.choices(range(300), k=B))[:, None],
            "gaps": lambda: torch.tensor([sorted(r.sample(range(9 * S), S)) for _ in range(B)]),
            "restart": lambda: plain % torch.tensor(r.choices(range(1, S + 1), k=B))[:, None],
        }
        return drawn[case.positions]()

    @property
    def mask(self) -> posenc.Mask:
        """The library's mask."""
        case = self.case
        ordered, segments = case.place == "any", self.segments
        theirs = segments is not None and (case.keys > case.queries or ordered)
        return posenc.Mask(
            case.causal,
            q_order=self.order[:, self.rows] if ordered else None,
            k_order=self.order if ordered else None,
            window=case.window,
            q_segments=None if segments is None else segments[:, self.rows],
            k_segments=segments if theirs else None,
            key_mask=self.key_mask,
        )

    @property
    def visible(self) -> Array:
        """The oracle's mask, true for pairs of a query and a visible key."""
        case, rows, order, names = self.case, numpy(self.rows), numpy(self.order), numpy(self.names)
        behind, together = order[:, rows, None] - order[:, None], names[:, rows, None] == names[:, None]
        near = np.ones_like(together) if case.window is None else abs(behind) < case.window
        seen = together & near & (behind >= 0) if case.causal else together & near
        seen = seen if self.key_mask is None else seen & numpy(self.key_mask)[:, None]
        return np.expand_dims(seen, 1)

    @property
    def names(self) -> Tensor:
        """The document of each key."""
        return torch.zeros(self.case.batch, self.case.keys) if self.segments is None else self.segments

    def expected(self) -> tuple[Array, float]:
        """Return the oracle's output and its largest score."""
        case, axes = self.case, axes_of(self.case.spec)
        shape = axes, case.batch
        rows = [numpy(p)[None] if axes == 1 else numpy(p) for p in (self.q_positions, self.k_positions)]
        rows = [np.broadcast_to(p[:, None] if p.ndim == 2 else p, (*shape, p.shape[-1])) for p in rows]
        inputs = Inputs(
            numpy(self.q),
            numpy(self.k).repeat(case.group, 1),
            numpy(self.v).repeat(case.group, 1),
            *rows,
            self.visible,
            numpy(self.order),
            numpy(self.rows),
            numpy(self.x),
            case.head_dim**-0.5 if case.scale is None else case.scale,
            numpy(self.names),
        )
        return attend(case.spec, {name: numpy(p) for name, p in self.encoding.named_parameters()}, inputs)

    def placed(self) -> posenc.Placed:
        """Return the encoding placed at the positions, with content if it needs any."""
        same = self.case.place == "end" and self.case.queries == self.case.keys
        placed = self.encoding.at(self.q_positions, None if same else self.k_positions, dtype=torch.float64)
        of_all = self.encoding.at(self.k_positions, dtype=torch.float64).with_content(self.x)[1]
        return placed.with_content(self.x[:, self.rows])[0].with_state(of_all)

    def attention(self) -> Tensor:
        """Return the library's output."""
        placed = self.placed()
        rotated = placed.rotate(self.q, self.k)
        return posenc.attention(*rotated, self.v, placed, self.mask, scale=self.case.scale)


def draw(r: Random) -> AttentionCase:
    """Draw a case within the library's contracts."""
    spec, queries = draw_spec(r), r.choice((1, 2, 5, 9, 17, 33))
    kinds = {leaf.kind for leaf in spec.flat()}
    place = "end" if kinds & BEHIND else r.choice(("end", "end", "any"))
    keys = queries + r.choice((0, 0, 0, 1, 4, 20))
    causal = bool(kinds & CAUSAL) or r.random() < 0.6
    # If the formula applies only to earlier keys, the order of tokens must agree with their positions.
    ways = ("plain", "plain", "offset", "rows", "gaps", "plain" if kinds & BEHIND else "restart")
    return AttentionCase(
        seed=r.getrandbits(32),
        spec=spec,
        batch=r.choice((1, 2, 3)),
        kv_heads=r.choice((1, 1, 2, 3)),
        group=r.choice((1, 1, 2, 4)),
        head_dim=r.choice((2, 4, 8)),
        queries=queries,
        keys=keys,
        place=place,  # "end": queries belong to the last keys; "any": tokens in any order, which the mask states
        positions=r.choice(ways),
        causal=causal,
        window=r.choice((None, None, None, 1, 3, 8)),
        documents=r.choice(("none", "none", "none", "ends", "mixed")),
        padding=r.choice(("none", "none", "left", "holes")),
        scale=r.choice((None, None, None, 1.0, 0.3)),
        rows=r.choice((None, 4, 16)),  # rows per block, if fewer than the default
    )


AREA = Area("attention", draw)
