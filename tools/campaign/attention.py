"""Attention: every encoding that changes scores, under every mask, whole and from a cache, and its gradients."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tools.campaign.core import Area, Case, agree, eps, normal, numpy
from tools.campaign.oracles.attention import Answer, Inputs, Spec, attend, axes_of
from torch import Tensor
from torch.autograd.gradcheck import gradcheck, gradgradcheck

import posenc
from posenc.errors import InvalidArgument
from posenc.laws.law import owed

Array = np.ndarray
WIDTH = 12
"""Channels of the tokens that content is read from."""

SIZES: dict[str, Callable[[int], int]] = {
    "posenc.mask.lengths:SHORT_DOCUMENT": lambda rows: 1,
    "posenc.mask.lengths:SHORT_ROW": lambda rows: 1,
    "posenc.mask.lengths:SHORT_PLAIN_ROW": lambda rows: 1,
    "posenc.attend.blocks:ROWS": lambda rows: rows,
    "posenc.attend.blocks:TRAINING_ROWS": lambda rows: 2 * rows,
}
"""From how many tokens on the library goes by documents and blocks, so that small cases can meet both."""

BACKENDS = ("operators", "documents", "low_rank", "sdpa", "toeplitz", "flex", "blocks")
BEHIND = {"FIRE", "Inkling", "XPos"}
"""Those whose formula is for keys at positions at or before their query's."""
CAUSAL = BEHIND | {"FoX", "CoPE"}
KINKED = {"CoPE", "FIRE", "Inkling"}
"""Those whose gradient jumps (Inkling's where it clips), so that differences say nothing of second derivatives."""


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
    "Shaw": lambda r: {"behind": r.choice((1, 3, 64)), "ahead": r.choice((0, 2, 8)), "std": 0.7},
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
    "XPos": lambda r: {"pairing": r.choice(("half", "interleaved")), "scale_base": r.choice((64, 512))},
    "Rotary": lambda r: {"pairing": r.choice(("half", "interleaved")), "base": r.choice((1e4, 100.0))},
    "PoPE": lambda r: {"start": "uniform"},
}
"""Every class with settings that change its formula."""
BUCKETED = ("T5", "Kerple")
BIASED = (*BUCKETED, "ALiBi", "FIRE", "Sandwich", "FoX", "Inkling")
STACKS = {
    "Rotary": (*BIASED, "Shaw", "CoPE"),
    "XPos": BIASED,  # beside which those that read queries are refused
    "QueryScale": (*BUCKETED, "ALiBi"),
    "SSMax": (*BUCKETED, "ALiBi"),
    "ALiBi": (*BUCKETED, "Sandwich", "FoX"),
    "FoX": (*BUCKETED, "Sandwich"),
}
"""What stands beside what in a stack."""
HEADLESS = {"NoPE", "QueryScale", "Rotary", "XPos"}
DIMMED = {"Decomposed", "Shaw", "TransformerXL", "DeBERTa", "CoPE", "XPos", "Rotary", "PoPE"}


def _buckets(r: Random, buckets: tuple[int, ...], more: tuple[int, ...]) -> dict[str, Any]:
    count = r.choice(buckets)
    return {"buckets": count, "max_distance": count + r.choice(more)}


def build(spec: Spec, heads: int, head_dim: int) -> posenc.Encoding:
    """The library's module of a spec."""
    if spec.kind == "Stack":
        return posenc.Stack(*(build(part, heads, head_dim) for part in spec.parts))
    settings = spec.options
    settings |= {} if spec.kind in HEADLESS else {"heads": heads}
    settings |= {"head_dim": head_dim} if spec.kind in DIMMED else {}
    module: posenc.Encoding = getattr(posenc, spec.kind)(**settings)
    return module


def draw_spec(r: Random) -> Spec:
    """One encoding, or two in a stack."""
    first = r.choice((*STACKS, *KINDS, *KINDS, *KINDS))
    kinds = (first, r.choice(STACKS[first])) if first in STACKS and r.random() < 0.6 else (first,)
    parts = tuple(Spec(kind, tuple(KINDS[kind](r).items())) for kind in kinds)
    return parts[0] if len(parts) == 1 else Spec("Stack", parts=parts)


class AttentionCase(Case):
    """One call of attention, and what is asked of it."""

    def judge(self) -> None:
        with small_blocks(self.rows):
            ASKED[self.asked](Scene(self))

    def build(self) -> posenc.Encoding:
        """The library's module."""
        return build(self.spec, self.kv_heads * self.group, self.head_dim)


@contextmanager
def small_blocks(rows: int | None) -> Iterator[None]:
    """Blocks and documents of a few tokens count as worth it."""
    with ExitStack() as stack:
        for where, small in SIZES.items() if rows else ():
            module, name = where.split(":")
            stack.enter_context(patch.object(import_module(module), name, small(rows)))
        yield


class Scene:
    """The tensors of a case, for the library and for the oracle."""

    def __init__(self, case: AttentionCase) -> None:
        self.case, self.random = case, Random(case.seed)
        r, B, S, T = self.random, case.batch, case.keys, case.queries
        heads = case.kv_heads * case.group
        self.dtype = getattr(torch, case.dtype)
        self.at_dtype = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.encoding = case.build().to(self.at_dtype)
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
        self.q = normal(r, B, heads, T, case.head_dim, dtype=self.dtype)
        self.k = normal(r, B, case.kv_heads, S, case.head_dim, dtype=self.dtype)
        self.v = normal(r, B, case.kv_heads, S, r.choice((case.head_dim, 3)), dtype=self.dtype)
        self.x = normal(r, B, S, WIDTH, dtype=self.dtype)
        self.sinks = normal(r, heads, dtype=self.at_dtype, std=2.0) if case.sinks else None

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
            mask[:, -1] = True  # a cache whose last slot is empty is refused, with its fix
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
        """As the library has it."""
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
        """As the oracle has it: pair by pair."""
        case, rows, order, names = self.case, numpy(self.rows), numpy(self.order), numpy(self.names)
        behind, together = order[:, rows, None] - order[:, None], names[:, rows, None] == names[:, None]
        near = np.ones_like(together) if case.window is None else abs(behind) < case.window
        seen = together & near & (behind >= 0) if case.causal else together & near
        seen = seen if self.key_mask is None else seen & numpy(self.key_mask)[:, None]
        return np.expand_dims(seen, 1)

    @property
    def names(self) -> Tensor:
        """Of every key, the document that it is in."""
        return torch.zeros(self.case.batch, self.case.keys) if self.segments is None else self.segments

    def answer(self) -> Answer:
        """The oracle's."""
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
            softcap=case.softcap,
            sinks=None if self.sinks is None else numpy(self.sinks),
        )
        return attend(case.spec, {name: numpy(p) for name, p in self.encoding.named_parameters()}, inputs)

    def placed(self) -> posenc.Placed:
        """The encoding at the positions, content read where there is some."""
        same = self.case.place == "end" and self.case.queries == self.case.keys
        placed = self.encoding.at(self.q_positions, None if same else self.k_positions, dtype=self.at_dtype)
        before = self.case.keys - self.case.queries
        if self.case.place == "end" and before:
            cached = self.encoding.at(self.k_positions[..., :before], dtype=self.at_dtype)
            state = cached.with_content(self.x[:, :before])[1]
            return placed.with_content(self.x[:, self.rows], state)[0]
        of_all = self.encoding.at(self.k_positions, dtype=self.at_dtype).with_content(self.x)[1]
        return placed.with_content(self.x[:, self.rows])[0].with_state(of_all)

    def attention(self, **settings: Any) -> Any:
        """The library's result."""
        case, placed = self.case, self.placed()
        given = {"softcap": case.softcap, "sinks": self.sinks, "scale": case.scale} | settings
        return posenc.attention(*placed.rotate(self.q, self.k), self.v, placed, self.mask, **given)

    def tolerance(self, answer: Answer, output: bool = True) -> float:
        """Some roundings of a score and of an output in the type that computes."""
        wide = eps(self.at_dtype) if self.dtype.itemsize >= 4 else eps(self.dtype) / 4
        largest = float(np.abs(numpy(self.v)).max(initial=0)) if output else 1.0
        farthest = float(self.k_positions.max())
        return (40 * wide + 1e-16 * farthest) * (2 + answer.largest) * (1 + largest)


def judge_values(scene: Scene) -> None:
    """Output and logsumexp, or the output of one backend by name."""
    answer = scene.answer()
    try:
        out = scene.attention(backend=scene.case.backend)
    except InvalidArgument as refusal:
        if scene.case.backend == "auto" or "backend" not in str(refusal):
            raise
        return
    agree(f"output by {scene.case.backend}", out, answer.out, scene.tolerance(answer))
    if scene.case.backend == "auto":
        out, lse = scene.attention(return_logsumexp=True, sinks=None)
        whole = out if scene.sinks is None else posenc.merge([(out, lse)], scene.sinks)[0]
        agree("output beside its logsumexp", whole, answer.out, scene.tolerance(answer))
        agree("logsumexp", lse, answer.logsumexp, scene.tolerance(answer, output=False))


def judge_gradients(scene: Scene) -> None:
    """First and, where they are smooth, second derivatives are those of torch's differences."""
    names = [name for name in ("q", "k", "v", "x", "sinks") if getattr(scene, name) is not None]
    leaves = [getattr(scene, name).requires_grad_() for name in names]

    def attended(*given: Tensor) -> Tensor:
        for name, tensor in zip(names, given, strict=False):
            setattr(scene, name, tensor)
        out: Tensor = scene.attention()  # parameters are moved in place
        return out

    kinked = KINKED & {leaf.kind for leaf in scene.case.spec.flat()}
    exact = {"atol": 1e-5, "rtol": 1e-3} if kinked else {"atol": 1e-6, "rtol": 1e-5}
    gradcheck(attended, (*leaves, *scene.encoding.parameters()), fast_mode=True, **exact)
    if scene.case.asked == "seconds" and not kinked:
        gradgradcheck(attended, (*leaves, *scene.encoding.parameters()), fast_mode=True)


def judge_dropout(scene: Scene) -> None:
    """With the identity as values the output is the weights: each is 0 or 1/(1 − p) of its own, p of them 0."""
    case, p, rounds = scene.case, scene.random.choice((0.1, 0.5, 0.8)), 30
    scene.v = torch.eye(case.keys, dtype=scene.dtype).expand(case.batch, case.kv_heads, -1, -1).contiguous()
    answer = scene.answer()
    torch.manual_seed(case.seed)
    draws = np.stack([numpy(scene.attention(dropout=p)) for _ in range(rounds)])
    large, dropped = np.broadcast_to(answer.weights > 1e-3, draws.shape), np.abs(draws) < 1e-7
    want = np.where(dropped, 0, answer.weights / (1 - p))
    agree("weights that are left", draws * large, want * large, 60 * scene.tolerance(answer))
    count, zeros = int(large.sum()), int((large & dropped).sum())
    likely = abs(zeros - p * count) <= 6 * np.sqrt(count * p * (1 - p)) + 1
    owed(likely, f"{zeros} of {count} weights are dropped; {p * count:.0f} expected of dropout={p}")
    alike = count > 60 and bool((dropped == dropped[0])[large].all())
    owed(not alike, "the same weights are dropped in every call")


ASKED: dict[str, Callable[[Scene], None]] = {
    "values": judge_values,
    "gradients": judge_gradients,
    "seconds": judge_gradients,
    "dropout": judge_dropout,
}


def draw(r: Random) -> AttentionCase:
    """A case that the library's contracts admit."""
    spec, queries = draw_spec(r), r.choice((1, 2, 5, 9, 17, 33))
    kinds = {leaf.kind for leaf in spec.flat()}
    asked = r.choice((*["values"] * 6, "gradients", "gradients", "seconds", "dropout"))
    if asked == "dropout" and "CoPE" in kinds:  # refused for a bias that reads scores
        asked = "values"
    values, dropout = asked == "values", asked == "dropout"
    place = "end" if kinds & BEHIND else r.choice(("end", "end", "any"))
    keys = queries + r.choice((0, 0, 0, 1, 4, 20))
    causal = bool(kinds & CAUSAL) or r.random() < 0.6
    types = ("float64", "float64", "float32", "bfloat16", "bfloat16" if "XPos" in kinds else "float16")
    # A key that is before its query in order stands before it, where the formula is for those alone.
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
        place=place,  # "end": queries are the last keys' tokens; "any": tokens in any order, which the mask states
        positions=r.choice(ways),
        causal=causal,
        window=r.choice((None, None, None, 1, 3, 8)),
        documents=r.choice(("none", "none", "none", "ends", "mixed")),
        padding=r.choice(("none", "none", "left", "holes")),
        dtype=r.choice(types) if values or dropout else "float64",
        asked=asked,
        backend="auto" if not values or r.random() < 0.7 else r.choice(BACKENDS),
        scale=r.choice((None, None, None, 1.0, 0.3)),
        rows=r.choice((None, 4, 16)),  # how many are a block, if fewer than usual
        softcap=r.choice((0.7, 5.0)) if not dropout and r.random() < 0.12 else None,
        sinks=not dropout and r.random() < 0.15,
    )


AREA = Area("attention", "encodings that change scores, masks, caches, gradients, dropout", draw)
