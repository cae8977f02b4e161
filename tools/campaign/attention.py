"""Attention: every encoding that changes scores, under every mask, whole, from a cache and in parts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tools.campaign.core import Area, Wrong, agree, curve, eps, normal, numpy, slope
from tools.campaign.oracles.attention import Answer, Inputs, Spec, attend
from torch import Tensor

import posenc
from posenc.errors import InvalidArgument

Array = np.ndarray
WIDTH = 12
"""Channels of the tokens that content is read from."""

SIZES = {
    "posenc.mask.lengths": ("SHORT_DOCUMENT", "SHORT_ROW", "SHORT_PLAIN_ROW"),
    "posenc.attend.blocks": ("ROWS", "TRAINING_ROWS"),
}
"""From how many tokens on the library goes by documents and blocks, so that small cases can meet both."""

BACKENDS = ("operators", "documents", "low_rank", "sdpa", "toeplitz", "flex", "blocks")
BEHIND = {"FIRE", "Inkling", "XPos"}
"""Those whose formula is for keys at positions at or before their query's."""
CAUSAL = BEHIND | {"FoX", "CoPE"}
ORDERED = {"CoPE", "FoX"}
"""Those that sum along the sequence, so that parts of its keys do not say enough."""
KINKED = {"CoPE", "FIRE", "Inkling"}
"""Those whose gradient jumps (Inkling's where it clips), so that differences say nothing of second derivatives."""


def _t5(r: Random) -> dict[str, Any]:
    buckets = r.choice((4, 8, 12, 32))
    return {
        "buckets": buckets,
        "max_distance": buckets + r.choice((0, 1, 5, 100)),
        "two_sided": r.random() < 0.5,
        "std": 1.0,
    }


def _deberta(r: Random) -> dict[str, Any]:
    buckets = r.choice((4, 6, 8, 16))
    return {"buckets": buckets, "max_distance": buckets + r.choice((0, 1, 9)), "std": 0.7}


KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "NoPE": lambda r: {},
    "ALiBi": lambda r: {"max_exponent": r.choice((8.0, 4.0, 2.5))},
    "T5": _t5,
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
    "DeBERTa": _deberta,
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
STACKED = ("ALiBi", "T5", "Kerple", "FIRE", "Sandwich", "Shaw", "FoX", "Inkling", "CoPE")
GRIDS = {"Window", "Decomposed", "LayoutLM"}
HEADLESS = {"NoPE", "QueryScale", "Rotary", "XPos"}
DIMMED = {"Decomposed", "Shaw", "TransformerXL", "DeBERTa", "CoPE", "XPos", "Rotary", "PoPE"}


def build(spec: Spec, heads: int, head_dim: int) -> posenc.Encoding:
    """The library's module of a spec."""
    if spec.kind == "Stack":
        return posenc.Stack(*(build(part, heads, head_dim) for part in spec.parts))
    settings = spec.options
    settings |= {} if spec.kind in HEADLESS else {"heads": heads}
    settings |= {"head_dim": head_dim} if spec.kind in DIMMED else {}
    module: posenc.Encoding = getattr(posenc, spec.kind)(**settings)
    return module


def _leaf(r: Random, kind: str) -> Spec:
    return Spec(kind, tuple(KINDS[kind](r).items()))


def draw_spec(r: Random, heads: int, group: int) -> Spec:
    """One encoding, or two in a stack."""
    kind = r.choice(list(KINDS))
    shape = r.random()
    if shape < 0.12:
        turns, adds = _leaf(r, r.choice(("Rotary", "XPos"))), _leaf(r, r.choice(STACKED))
        if adds.kind in ("Shaw", "CoPE"):  # which read queries, and are refused beside xPos
            turns = _leaf(r, "Rotary")
        return Spec("Stack", parts=(turns, adds))
    if shape < 0.18:
        scales, adds = _leaf(r, r.choice(("QueryScale", "SSMax"))), _leaf(r, r.choice(("ALiBi", "T5", "Kerple")))
        return Spec("Stack", parts=(scales, adds))
    if shape < 0.22:
        first, second = r.sample(("ALiBi", "T5", "Kerple", "Sandwich", "FoX"), 2)
        return Spec("Stack", parts=(_leaf(r, first), _leaf(r, second)))
    return _leaf(r, kind)


@dataclass(frozen=True)
class AttentionCase:
    """One call of attention, and what is asked of it."""

    seed: int
    spec: Spec
    batch: int
    kv_heads: int
    group: int
    head_dim: int
    queries: int
    keys: int
    place: str
    """``"end"``: queries are the last keys' tokens; ``"any"``: tokens in any order, which the mask states."""
    positions: str
    causal: bool
    window: int | None
    documents: str
    padding: str
    dtype: str
    asked: str
    backend: str
    scale: float | None
    rows: int | None
    """How many rows are a block, if fewer than usual."""
    chunk: int | None
    groups: bool
    dense: bool
    softcap: float | None
    sinks: bool
    layers: int = field(default=1)
    """In how many layers one placed encoding is used, each on the output of the one before."""

    @property
    def heads(self) -> int:
        return self.kv_heads * self.group

    @property
    def kinds(self) -> set[str]:
        return {leaf.kind for leaf in self.spec.flat()}

    def judge(self) -> None:
        with small_blocks(self.rows):
            ASKED[self.asked](Scene(self))


@contextmanager
def small_blocks(rows: int | None) -> Iterator[None]:
    """Blocks and documents of a few tokens count as worth it."""
    with ExitStack() as stack:
        for module, names in SIZES.items():
            for name in names:
                small = {"ROWS": rows, "TRAINING_ROWS": 2 * (rows or 0)}.get(name, 1)
                if rows is not None:
                    stack.enter_context(patch.object(import_module(module), name, small))
        yield


class Scene:
    """The tensors of a case, for the library and for the oracle."""

    def __init__(self, case: AttentionCase) -> None:
        self.case, self.random = case, Random(case.seed)
        r, B, S, T = self.random, case.batch, case.keys, case.queries
        self.dtype = getattr(torch, case.dtype)
        self.at_dtype = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.encoding = build(case.spec, case.heads, case.head_dim).to(self.at_dtype)
        for name, parameter in self.encoding.named_parameters():
            std = {"outer": 0.7, "inner": 1.5, "curves": 0.7}.get(name.rpartition(".")[2], 0.5)
            with torch.no_grad():
                parameter.copy_(normal(r, *parameter.shape, std=std))
        self.rows = torch.arange(S - T, S) if case.place == "end" else torch.tensor(r.sample(range(S), T))
        self.order = torch.arange(S).expand(B, S)
        if case.place == "any":
            self.order = torch.stack([torch.tensor(r.sample(range(2 * S), S)) for _ in range(B)])
        self.segments = self._documents()
        self.key_mask = self._padding()
        self.k_positions = self._positions()
        self.q_positions = self.k_positions[..., self.rows]
        self.q = normal(r, B, case.heads, T, case.head_dim, dtype=self.dtype)
        self.k = normal(r, B, case.kv_heads, S, case.head_dim, dtype=self.dtype)
        self.v = normal(r, B, case.kv_heads, S, r.choice((case.head_dim, 3)), dtype=self.dtype)
        self.x = normal(r, B, S, WIDTH, dtype=self.dtype)
        self.groups = torch.tensor([[r.choice((-1, -1, 0, 7)) for _ in range(S)] for _ in range(B)])
        rows = r.choice((1, B)), r.choice((1, case.heads)), T, S
        self.dense = normal(r, *rows) > -1.0
        self.sinks = normal(r, case.heads, dtype=self.at_dtype, std=2.0) if case.sinks else None

    def _documents(self) -> Tensor | None:
        r, B, S = self.random, self.case.batch, self.case.keys
        if self.case.documents == "none":
            return None
        rows = []
        for _ in range(B):
            count = r.randrange(1, 5)
            names = r.sample((0, 1, -7, 2**32, 2**32 + 1, 5 - 2**32, 2**62, 3), count)
            if self.case.documents == "ends":
                cuts = sorted(r.randrange(S + 1) for _ in range(count - 1))
                rows.append([names[sum(cut <= i for cut in cuts)] for i in range(S)])
            else:
                rows.append([r.choice(names) for _ in range(S)])
        return torch.tensor(rows)

    def _padding(self) -> Tensor | None:
        r, B, S = self.random, self.case.batch, self.case.keys
        if self.case.padding == "none":
            return None
        if self.case.padding == "left":
            return torch.stack([torch.arange(S) >= r.randrange(S) for _ in range(B)])
        masks = torch.tensor([[r.random() < 0.7 for _ in range(S)] for _ in range(B)])
        if self.case.causal and self.case.place == "end" and self.case.queries < S:
            masks[:, -1] = True  # a cache whose last slot is empty is refused, with its fix
        return masks

    def _positions(self) -> Tensor:
        r, case = self.random, self.case
        B, S, axes = case.batch, case.keys, _axes(case.spec)
        if axes > 1:
            sizes = [size for leaf in case.spec.flat() for size in leaf.options.get("size", ())][:axes] or [
                40
            ] * axes
            rows = [[[r.randrange(size) for _ in range(S)] for _ in range(B)] for size in sizes]
            return torch.tensor(rows) if case.positions != "plain" else torch.tensor(rows)[:, 0]
        if case.positions == "plain":
            return torch.arange(S)
        if case.positions == "offset":
            starts = (1, 17, 4090, 70_000, 1_000_000)
            return torch.arange(S) + r.choice([n for n in starts if n + S <= self.encoding.position_limit])
        if case.positions == "rows":
            return torch.stack([torch.arange(S) + r.randrange(300) for _ in range(B)])
        if case.positions == "gaps":
            return torch.stack([torch.tensor(sorted(r.sample(range(9 * S), S))) for _ in range(B)])
        return torch.stack([torch.arange(S) % r.randrange(1, S + 1) for _ in range(B)])

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
            chunk=case.chunk,
            bidirectional_groups=self.groups if case.groups else None,
            dense=self.dense if case.dense else None,
        )

    @property
    def visible(self) -> Array:
        """As the oracle has it: pair by pair."""
        case, order = self.case, self.order.tolist()
        visible = np.ones((case.batch, 1, case.queries, case.keys), dtype=bool)
        names = np.zeros((case.batch, case.keys)) if self.segments is None else numpy(self.segments)
        real = np.ones((case.batch, case.keys), dtype=bool) if self.key_mask is None else numpy(self.key_mask)
        for b in range(case.batch):
            for t, row in enumerate(self.rows.tolist()):
                start = 0
                if case.place == "end":  # chunks count from the document's first token that is no padding
                    start = min(
                        (s for s in range(case.keys) if names[b, s] == names[b, row] and real[b, s]), default=0
                    )
                for s in range(case.keys):
                    behind = order[b][row] - order[b][s]
                    sees = not case.causal or behind >= 0
                    sees = sees and (case.window is None or abs(behind) < case.window)
                    if case.groups:
                        sees = sees or 0 <= int(self.groups[b, row]) == int(self.groups[b, s])
                    if case.chunk is not None:
                        of_query, of_key = (
                            max(0, place - start) // case.chunk for place in (order[b][row], order[b][s])
                        )
                        sees = sees and of_query == of_key
                    visible[b, 0, t, s] = sees and names[b, row] == names[b, s] and real[b, s]
        return visible & numpy(self.dense) if case.dense else visible

    def inputs(self, **leaves: Array) -> Inputs:
        """For the oracle, with these numbers in place of the tensors'."""
        case = self.case
        q, k, v, x = (leaves.get(name, numpy(getattr(self, name))) for name in ("q", "k", "v", "x"))
        axes = _axes(case.spec)
        rows = [numpy(p)[None] if axes == 1 else numpy(p) for p in (self.q_positions, self.k_positions)]
        rows = [np.broadcast_to(p[:, None] if p.ndim == 2 else p, (axes, case.batch, p.shape[-1])) for p in rows]
        segments = np.zeros((case.batch, case.keys)) if self.segments is None else numpy(self.segments)
        scale = case.head_dim**-0.5 if case.scale is None else case.scale
        return Inputs(
            q,
            k.repeat(case.group, 1),
            v.repeat(case.group, 1),
            rows[0],
            rows[1],
            self.visible,
            numpy(self.order),
            numpy(self.rows),
            x,
            scale,
            segments,
            softcap=case.softcap,
            sinks=leaves.get("sinks", None if self.sinks is None else numpy(self.sinks)),
        )

    def numbers(self) -> dict[str, Array]:
        return {name: numpy(parameter) for name, parameter in self.encoding.named_parameters()}

    def answer(self, leaves: Mapping[str, Array] | None = None) -> Answer:
        """The oracle's, with these numbers in place of the case's."""
        leaves = leaves or {}
        weights = self.numbers() | {name[2:]: a for name, a in leaves.items() if name.startswith("w:")}
        plain = {name: a for name, a in leaves.items() if not name.startswith("w:")}
        return attend(self.case.spec, weights, self.inputs(**plain))

    def placed(self, x: Tensor | None = None, keys: Tensor | None = None) -> posenc.Placed:
        """The encoding at the positions, content read where there is some."""
        x = self.x if x is None else x
        k_positions = self.k_positions if keys is None else self.k_positions[..., keys]
        same = self.case.place == "end" and self.case.queries == self.case.keys and keys is None
        placed = self.encoding.at(self.q_positions, None if same else k_positions, dtype=self.at_dtype)
        if not self.encoding.needs_content:
            return placed
        if same:
            return placed.with_content(x)[0]
        state = None
        if self.case.keys > self.case.queries and self.case.place == "end":
            before = self.case.keys - self.case.queries
            cached = self.encoding.at(self.k_positions[..., :before], dtype=self.at_dtype)
            state = cached.with_content(x[:, :before])[1]
            return placed.with_content(x[:, self.rows], state)[0]
        of_all = self.encoding.at(self.k_positions, dtype=self.at_dtype).with_content(x)[1]
        return placed.with_content(x[:, self.rows])[0].with_state(of_all)

    def attention(self, **settings: Any) -> Any:
        """The library's result."""
        tensors = {name: settings.pop(name, getattr(self, name)) for name in ("q", "k", "v", "x")}
        placed = settings.pop("placed", None) or self.placed(tensors["x"])
        q, k = placed.rotate(tensors["q"], tensors["k"])
        settings = {"softcap": self.case.softcap, "sinks": self.sinks} | settings
        return posenc.attention(q, k, tensors["v"], placed, self.mask, scale=self.case.scale, **settings)

    def tolerance(self, answer: Answer, output: bool = True) -> float:
        """Some roundings of a score and of an output in the type that computes."""
        wide = eps(self.at_dtype) if self.dtype.itemsize >= 4 else eps(self.dtype) / 4
        largest = float(np.abs(numpy(self.v)).max(initial=0)) if output else 1.0
        farthest = float(self.k_positions.max())
        return (40 * wide + 1e-16 * farthest) * (2 + answer.largest) * (1 + largest)


def _axes(spec: Spec) -> int:
    if spec.parts:
        return max(map(_axes, spec.parts))
    return len(spec.options["size"]) if "size" in spec.options else 3 if spec.kind == "LayoutLM" else 1


def judge_values(scene: Scene) -> None:
    """Output and logsumexp, or the output of one backend by name."""
    answer = scene.answer()
    if scene.case.backend == "auto":
        agree("output", scene.attention(), answer.out, scene.tolerance(answer))
        out, lse = scene.attention(return_logsumexp=True, sinks=None)
        whole = out if scene.sinks is None else posenc.merge([(out, lse)], scene.sinks)[0]
        agree("output beside its logsumexp", whole, answer.out, scene.tolerance(answer))
        agree("logsumexp", lse, answer.logsumexp, scene.tolerance(answer, output=False))
        return
    try:
        out = scene.attention(backend=scene.case.backend)
    except InvalidArgument as refusal:
        if "backend" not in str(refusal):
            raise
        return
    agree(f"output by {scene.case.backend}", out, answer.out, scene.tolerance(answer))


def judge_scores(scene: Scene) -> None:
    """The dense scores: their softmax is the oracle's weights."""
    answer = scene.answer()
    placed = scene.placed()
    q, k = placed.rotate(scene.q, scene.k)
    more = {"scale": scene.case.scale, "softcap": scene.case.softcap, "sinks": scene.sinks}
    scores = posenc.scores(q, k, placed, scene.mask, **more).double()  # type: ignore[arg-type]
    weights = scores.softmax(-1).nan_to_num()[..., : scene.case.keys]
    agree("softmax of scores", weights, answer.weights, scene.tolerance(answer, output=False))


def _leaves(scene: Scene) -> dict[str, Tensor]:
    tensors = {name: getattr(scene, name) for name in ("q", "k", "v")}
    tensors |= {"x": scene.x} if scene.encoding.needs_content else {}
    tensors |= {} if scene.sinks is None else {"sinks": scene.sinks}
    return tensors | {f"w:{name}": p for name, p in scene.encoding.named_parameters()}


def judge_gradients(scene: Scene) -> None:
    """Derivatives of Σ out·g along a random direction of one leaf, the first and, where smooth, the second."""
    leaves = {name: x.detach().requires_grad_() for name, x in _leaves(scene).items() if not name.startswith("w:")}
    leaves |= {f"w:{name}": p for name, p in scene.encoding.named_parameters()}
    chosen = scene.random.choice([*leaves, *[name for name in leaves if name.startswith("w:")]])
    direction = numpy(normal(scene.random, *leaves[chosen].shape))
    plain = {name: x for name, x in leaves.items() if not name.startswith("w:")}
    parts = scene.case.asked == "gradients of parts"
    out = merged(scene, plain) if parts else scene.attention(**plain)
    weight = normal(scene.random, *out.shape, dtype=out.dtype)
    start = numpy(leaves[chosen])

    def along(step: float) -> float:
        return float((scene.answer({chosen: start + step * direction}).out * numpy(weight)).sum())

    second = scene.case.asked == "seconds"
    grads = torch.autograd.grad((out * weight).sum(), list(leaves.values()), create_graph=second, allow_unused=True)
    for name, grad in zip(leaves, grads, strict=True):
        if grad is not None and not torch.isfinite(grad).all():
            raise Wrong(f"the gradient of {name} is not finite")
    grad = dict(zip(leaves, grads, strict=True))[chosen]
    steep = torch.zeros((), dtype=out.dtype) if grad is None else (grad * torch.from_numpy(direction)).sum()
    size = 0.0 if grad is None else float(grad.detach().norm()) * float(np.linalg.norm(direction))
    answer = scene.answer()
    allowed = (1e3 * scene.tolerance(answer) + 3e-8) * (1 + size)
    want = slope(along, float(steep.detach()))
    if scene.case.kinds & KINKED:
        allowed += 1e-5 * (1 + size)
    agree(f"derivative along {chosen}", steep, want, allowed)
    if second:
        if steep.requires_grad:
            bent = torch.autograd.grad(steep, leaves[chosen], allow_unused=True)[0]
            bends = 0.0 if bent is None else float((bent * torch.from_numpy(direction)).sum())
        else:
            bends = 0.0
        want = curve(along, bends)
        bound = 1e-5 * (1 + size + abs(want) + float(np.linalg.norm(direction)) ** 2) * (1 + answer.largest) ** 2
        agree(f"second derivative along {chosen}", bends, want, bound)


def merged(scene: Scene, tensors: Mapping[str, Tensor]) -> Tensor:
    """Attention to the keys in parts, put together by ``merge``; every part may be seen by some queries only."""
    S, case = scene.case.keys, scene.case
    where = [scene.random.randrange(3) for _ in range(S)]
    parts = []
    for part in range(3):
        keys = torch.tensor([i for i in range(S) if where[i] == part], dtype=torch.int64)
        if not len(keys):
            continue
        placed = scene.placed(tensors.get("x"), keys)
        q, k = tensors["q"], tensors["k"][:, :, keys]
        if len(keys) == case.queries and case.kinds & {"Rotary", "XPos", "PoPE"}:
            # As many keys as queries could be the new tokens' own, so rotate both over all keys.
            whole = scene.placed(tensors.get("x"))
            q, k = whole.rotate(tensors["q"], tensors["k"])
            k = k[:, :, keys]
        else:
            q, k = placed.rotate(q, k)
        mask = posenc.Mask(
            case.causal,
            q_order=scene.order[:, scene.rows],
            k_order=scene.order[:, keys],
            window=case.window,
            q_segments=None if scene.segments is None else scene.segments[:, scene.rows],
            k_segments=None if scene.segments is None else scene.segments[:, keys],
            key_mask=None if scene.key_mask is None else scene.key_mask[:, keys],
            dense=scene.dense[..., keys] if case.dense else None,
        )
        v = tensors["v"][:, :, keys]
        more = {"scale": case.scale, "softcap": case.softcap, "return_logsumexp": True}
        parts.append(posenc.attention(q, k, v, placed, mask, **more))  # type: ignore[call-overload]
    scene.random.seed(case.seed + 1)
    return posenc.merge(parts, tensors.get("sinks", scene.sinks))[0]


def judge_parts(scene: Scene) -> None:
    answer = scene.answer()
    out = merged(scene, {name: getattr(scene, name) for name in ("q", "k", "v", "x")})
    agree("parts put together", out, answer.out, 2 * scene.tolerance(answer))


def judge_layers(scene: Scene) -> None:
    """One placed encoding in layers on top of each other: parameters that they share get the gradients of all."""
    leaves = {name: x.detach().requires_grad_() for name, x in _leaves(scene).items() if not name.startswith("w:")}
    weights = dict(scene.encoding.named_parameters())
    chosen = scene.random.choice([*[f"w:{name}" for name in weights], "q"])
    leaf = weights[chosen[2:]] if chosen.startswith("w:") else leaves["q"]
    direction = numpy(normal(scene.random, *leaf.shape))
    placed = scene.placed(leaves.get("x"))
    v = normal(scene.random, *scene.k.shape, dtype=scene.dtype)
    q, graph = leaves["q"], scene.random.random() < 0.5
    for _ in range(scene.case.layers):
        q = q + 0.5 * scene.attention(placed=placed, q=q, k=scene.k, v=v)
    weight = normal(scene.random, *q.shape, dtype=q.dtype)

    def along(step: float) -> float:
        moved = {chosen: numpy(leaf) + step * direction}
        rows = moved.pop("q", numpy(scene.q))
        for _ in range(scene.case.layers):
            rows = rows + 0.5 * scene.answer(moved | {"q": rows, "v": numpy(v)}).out
        return float((rows * numpy(weight)).sum())

    agree("output of layers", (q * weight).sum(), along(0.0), 1e-8 * (1 + float(q.detach().norm())))
    grad = torch.autograd.grad((q * weight).sum(), leaf, create_graph=graph)[0]
    steep = float((grad.detach() * torch.from_numpy(direction)).sum())
    size = float(grad.detach().norm()) * float(np.linalg.norm(direction))
    want = slope(along, steep)
    agree(f"derivative along {chosen} of {scene.case.layers} layers", steep, want, 1e-5 * (1 + size))


def judge_dropout(scene: Scene) -> None:
    """With the identity as values the output is the weights: each is 0 or 1/(1 − p) of its own, p of them 0."""
    S, p = scene.case.keys, scene.random.choice((0.1, 0.5, 0.8))
    scene.v = torch.eye(S, dtype=scene.dtype).expand(scene.case.batch, scene.case.kv_heads, S, S).contiguous()
    answer = scene.answer()
    torch.manual_seed(scene.case.seed)
    rounds = 30
    draws = np.stack([numpy(scene.attention(dropout=p)) for _ in range(rounds)])
    large = np.broadcast_to(answer.weights > 1e-3, draws.shape)
    dropped = np.abs(draws) < 1e-7
    want = np.where(dropped, 0, answer.weights / (1 - p))
    agree(
        "weights that are left", np.where(large, draws, 0), np.where(large, want, 0), 60 * scene.tolerance(answer)
    )
    count, zeros = int(large.sum()), int((large & dropped).sum())
    if abs(zeros - p * count) > 6 * np.sqrt(count * p * (1 - p)) + 1:
        raise Wrong(f"{zeros} of {count} weights are dropped; {p * count:.0f} expected of dropout={p}")
    if rounds > 1 and count > 60 and (dropped == dropped[0])[large].all():
        raise Wrong("the same weights are dropped in every call")


ASKED: dict[str, Callable[[Scene], None]] = {
    "values": judge_values,
    "scores": judge_scores,
    "gradients": judge_gradients,
    "seconds": judge_gradients,
    "parts": judge_parts,
    "gradients of parts": judge_gradients,
    "layers": judge_layers,
    "dropout": judge_dropout,
}


def draw(r: Random) -> AttentionCase:
    """A case that the library's contracts admit."""
    kv_heads, group = r.choice((1, 1, 2, 3)), r.choice((1, 1, 2, 4))
    case = AttentionCase(
        seed=r.getrandbits(32),
        spec=draw_spec(r, kv_heads * group, group),
        batch=r.choice((1, 2, 3)),
        kv_heads=kv_heads,
        group=group,
        head_dim=r.choice((2, 4, 8)),
        queries=r.choice((1, 2, 5, 9, 17, 33)),
        keys=0,
        place=r.choice(("end", "end", "any")),
        positions=r.choice(("plain", "plain", "offset", "rows", "gaps", "restart")),
        causal=r.random() < 0.6,
        window=r.choice((None, None, None, 1, 3, 8)),
        documents=r.choice(("none", "none", "none", "ends", "mixed")),
        padding=r.choice(("none", "none", "left", "holes")),
        dtype=r.choice(("float64", "float64", "float32", "bfloat16", "float16")),
        asked=r.choice(("values",) * 6 + ("scores", "gradients", "gradients", "seconds", "parts"))
        if r.random() < 0.9
        else r.choice(("gradients of parts", "layers", "dropout")),
        backend="auto" if r.random() < 0.7 else r.choice(BACKENDS),
        scale=r.choice((None, None, None, 1.0, 0.3)),
        rows=r.choice((None, 4, 16)),
        chunk=r.choice((1, 3, 8)) if r.random() < 0.12 else None,
        groups=r.random() < 0.12,
        dense=r.random() < 0.12,
        softcap=r.choice((0.7, 5.0)) if r.random() < 0.12 else None,
        sinks=r.random() < 0.15,
        layers=r.choice((2, 3)),
    )
    case = replace(case, keys=case.queries + (r.choice((1, 4, 20)) if r.random() < 0.35 else 0))
    if r.random() < 0.01:
        case = replace(case, queries=300, keys=300, asked="values", rows=None, batch=1)
    if case.kinds & CAUSAL:
        case = replace(case, causal=True)
    if "XPos" in case.kinds and case.dtype == "float16":  # which it refuses
        case = replace(case, dtype="bfloat16")
    if case.kinds & BEHIND:  # a key that is before its query in order stands before it
        positions = "plain" if case.positions == "restart" else case.positions
        case = replace(case, positions=positions, place="end")
    if case.asked in ("parts", "gradients of parts") and case.kinds & ORDERED:
        case = replace(case, asked="values")
    if case.asked == "dropout" and "CoPE" in case.kinds:
        case = replace(case, asked="values")  # refused for a bias that reads scores
    if case.asked in ("parts", "gradients of parts"):
        case = replace(case, chunk=None, groups=False)  # which count from the first of all keys
    if case.place == "any" or case.kinds & CAUSAL:
        case = replace(case, groups=False)
    if case.asked == "dropout":
        case = replace(case, softcap=None, sinks=False)  # refused beside it
    if case.asked == "seconds" and case.kinds & KINKED:
        case = replace(case, asked="gradients")
    if case.asked in ("gradients", "seconds", "gradients of parts", "layers"):
        case = replace(case, dtype="float64", backend="auto")
    if case.asked == "layers":
        case = replace(case, queries=min(case.queries, 9), scale=None)
        case = replace(case, keys=max(case.keys, case.queries))
    return case


AREA = Area("attention", "encodings that change scores, masks, caches, parts, gradients, dropout", draw)
