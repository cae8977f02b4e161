"""Dense softmax(scores)·v in float64 for every encoding that changes scores, from the papers' formulas.

A ``Spec`` names an encoding and its settings; ``attend`` returns the output and the largest visible score. Shapes:
q is (B, H, T, D), k and v are (B, H, S, ·), positions are (A, B, T) and (A, B, S), and tokens x are (B, S, C), of
which ``rows`` (T,) are the queries.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from tools.campaign.oracles.rotation import ladder, rotated

Array = np.ndarray
Numbers = Mapping[str, Array]


@dataclass(frozen=True)
class Spec:
    """An encoding: the name of its class, its settings, and the parts of a stack."""

    kind: str
    settings: tuple[tuple[str, Any], ...] = ()
    parts: tuple["Spec", ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.settings)

    def flat(self) -> list["Spec"]:
        """Return all parts, or the spec itself if it has none."""
        return [leaf for part in self.parts for leaf in part.flat()] if self.parts else [self]


@dataclass(frozen=True)
class Inputs:
    """The inputs of attention, for the oracle."""

    q: Array
    k: Array
    v: Array
    q_positions: Array
    k_positions: Array
    visible: Array
    """(B, 1 or H, T, S)"""
    k_order: Array
    """(B, S), each key's index in its sequence."""
    rows: Array
    tokens: Array
    scale: float
    segments: Array = field(default_factory=lambda: np.zeros((1, 1)))
    """(B, S), the document of each key."""
    scores: Array = field(default_factory=lambda: np.zeros((1, 1, 1, 1)))
    """(B, H, T, S), before any bias is added."""

    @property
    def behind(self) -> Array:
        """Return p_q − p_k along every axis, (A, B, T, S)."""
        return self.q_positions[..., :, None] - self.k_positions[..., None, :]


def slopes(heads: int, max_exponent: float = 8.0) -> Array:
    """Return ALiBi's slopes: a geometric series for a power of two, and every second slope of the next series."""
    power = 1 << (heads.bit_length() - 1)
    series = [2 ** (-max_exponent * h / power) for h in range(1, power + 1)]
    finer = [2 ** (-max_exponent * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return np.array((series + finer)[:heads])


@lru_cache(None)
def t5_side(n: int, buckets: int, max_distance: int) -> int:
    """Return the bucket of distance n on one side: min(N−1, e + ⌊ln(n/e)/ln(M/e)·(N−e)⌋), in integer arithmetic."""
    e = buckets // 2
    steps, j = buckets - e, 0
    if n < e:
        return n
    while j < steps - 1 and n**steps * e ** (j + 1) >= max_distance ** (j + 1) * e**steps:
        j += 1
    return e + j


def t5_bucket(ahead: int, buckets: int, max_distance: int, two_sided: bool) -> int:
    """Return the bucket of the offset key − query."""
    if not two_sided:
        return t5_side(max(-ahead, 0), buckets, max_distance)
    half = buckets // 2
    return t5_side(abs(ahead), half, max_distance) + (half if ahead > 0 else 0)


@lru_cache(None)
def deberta_row(behind: int, buckets: int, max_distance: int) -> int:
    """Return the row of the offset n = query − key: n if near, else ⌈ln(n/m)/ln((M−1)/m)·(m−1)⌉ + m."""
    m, n = buckets // 2, abs(behind)
    if n > m:
        j = 0
        while (max_distance - 1) ** j * m ** (m - 1) < n ** (m - 1) * m**j:
            j += 1
        n = m + j
    return min(max((n if behind > 0 else -n) + buckets, 0), 2 * buckets - 1)


def _mapped(function: Callable[[int], int], offsets: Array) -> Array:
    values, inverse = np.unique(offsets, return_inverse=True)
    return np.array([function(int(value)) for value in values], dtype=np.int64)[inverse].reshape(offsets.shape)


def _per_head(table: Array, index: Array) -> Array:
    """Look up rows of an (n, H) table; the result is (B, H, T, S)."""
    return np.moveaxis(table[index], -1, 1)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def alibi(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    m = slopes(x.q.shape[1], o.get("max_exponent", 8.0))
    return -m[:, None, None] * np.abs(x.behind[0])[:, None]


def t5(o: dict[str, Any], w: Numbers, x: Inputs, table: str = "weight", axis: int = 0) -> Array:
    buckets, farthest, sides = o.get("buckets", 32), o.get("max_distance", 128), o.get("two_sided", False)
    index = _mapped(lambda d: t5_bucket(d, buckets, farthest, sides), -x.behind[axis])
    return _per_head(w[table], index)


def layoutlm(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    parts = zip(o["buckets"], o["max_distance"], strict=True)
    sides = [{"buckets": n, "max_distance": m, "two_sided": True} for n, m in parts]
    return np.sum([t5(side, w, x, f"tables.{axis}.weight", axis) for axis, side in enumerate(sides)], 0)


def kerple(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    n = np.abs(x.behind[0])[:, None].astype(float)
    r = np.exp(w["size"])[:, None, None]
    if o.get("kernel", "log") == "log":
        return -r * np.log1p(np.exp(w["growth"])[:, None, None] * n)
    return -r * n ** (2 * _sigmoid(w["growth"])[:, None, None])


def fire(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    n, c = np.abs(x.behind[0]).astype(float), abs(w["c"][0])
    least = abs(w["m"][0]) * o.get("nearest", 512.0)
    reach = np.maximum(x.q_positions[0].astype(float), least)
    z = np.log1p(c * n) / (np.log1p(c * reach) + 1e-6)[..., None]
    hidden = np.maximum(z[..., None] * w["inner"] + w["inner_bias"], 0)
    return np.moveaxis(hidden @ w["outer"].T + w["outer_bias"], -1, 1)


def sandwich(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    C, first, H = o.get("channels", 128), o.get("first", 1), x.q.shape[1]
    i = np.arange(first, first + C // 2)
    cosines = np.cos(np.abs(x.behind[0])[..., None] * o.get("base", 1e4) ** (-2.0 * i / C)).sum(-1) - C / 2
    return (H / (8 * np.arange(1, H + 1)))[:, None, None] * cosines[:, None]


def window(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    index = np.zeros_like(x.behind[0])
    for axis, size in enumerate(o["size"]):
        index = index * (2 * size - 1) + x.behind[axis] + size - 1
    return _per_head(w["weight"], index)


def decomposed(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    rows = [w[f"tables.{axis}"][x.behind[axis] + size - 1] for axis, size in enumerate(o["size"])]
    return np.sum([np.einsum("bhtd,btsd->bhts", x.q, row) for row in rows], 0)


def shaw(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    behind = o.get("behind", 64)
    row = np.clip(-x.behind[0], -behind, o.get("ahead", 8)) + behind
    return x.scale * np.einsum("bhtd,btsd->bhts", x.q, w["weight"][row])


def transformer_xl(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    C, (H, D) = w["weight"].shape[1], w["u"].shape
    angles = x.behind[0][..., None] * o.get("base", 1e4) ** (-2.0 * np.arange(C // 2) / C)
    s = np.stack((np.sin(angles), np.cos(angles)), -1 if o.get("order", "interleaved") == "interleaved" else -2)
    r = np.einsum("btsc,hdc->bhtsd", s.reshape(*angles.shape[:-1], C), w["weight"].reshape(H, D, C))
    on_keys = np.einsum("hd,bhsd->bhs", w["u"], x.k)[:, :, None]
    return x.scale * (on_keys + np.einsum("bhtd,bhtsd->bhts", x.q + w["v"][:, None], r))


def deberta(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    row = _mapped(lambda d: deberta_row(d, o["buckets"], o["max_distance"]), x.behind[0])
    H, D = x.q.shape[1], x.q.shape[-1]
    of_keys, of_queries = (w[name].reshape(-1, H, D)[row] for name in ("keys", "queries"))
    met = np.einsum("bhtd,btshd->bhts", x.q, of_keys) + np.einsum("bhsd,btshd->bhts", x.k, of_queries)
    return x.scale * met


def cope(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    P = len(w["weight"])
    gates = _sigmoid(x.scores) * x.visible
    from_there = x.k_order[:, :, None] >= x.k_order[:, None, :]  # key t is at or after key j
    p = np.minimum(np.einsum("bhit,btj->bhij", gates, from_there.astype(float)), P - 1)
    low = np.floor(p).astype(int)
    share = p - low
    at_rows = np.einsum("bhtd,pd->bhtp", x.q, w["weight"])
    lower, upper = (np.take_along_axis(at_rows, np.minimum(low + i, P - 1), -1) for i in (0, 1))
    return (1 - share) * lower + share * upper


def inkling_factor(o: dict[str, Any], positions: Array) -> Array:
    if o.get("log_floor") is None:
        return np.ones(positions.shape)
    return 1 + o.get("log_amount", 0.1) * np.log(np.maximum(1, (positions + 1) / o["log_floor"]))


def inkling(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    basis, extent = w["curves"].shape
    r = np.einsum("btc,nc->btn", x.tokens[:, x.rows], w["weight"])
    r = r.reshape(*r.shape[:2], -1, basis)
    if "lengths" in w:
        r = r * w["lengths"]
        r = r * np.minimum(1, o["clip"] / (np.linalg.norm(r, axis=-1, keepdims=True) + 1e-6))
    n = x.behind[0]
    inside = (n >= 0) & (n < extent)
    bias = np.einsum("bthc,cbts->bhts", r, w["curves"][:, np.where(inside, n, 0)] * inside)
    return bias * inkling_factor(o, x.q_positions[0])[:, None, :, None]


def fox(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    logits = np.einsum("bsc,hc->bhs", x.tokens, w["weight"]) + w["bias"][:, None]
    log_gates = -_softplus(-logits)
    q_order, segments = x.k_order[:, x.rows], np.broadcast_to(x.segments, x.k_order.shape)
    k = x.k_order[:, None, :]
    until = (k <= q_order[..., None]) & (segments[:, None, :] == segments[:, x.rows][..., None])  # (B, T, l)
    after = x.k_order[:, :, None] > k  # (B, l, j): token l comes after key j
    return np.einsum("bhl,btl,blj->bhtj", log_gates, until.astype(float), after.astype(float))


BIASES: dict[str, Callable[[dict[str, Any], Numbers, Inputs], Array]] = {
    "ALiBi": alibi,
    "T5": t5,
    "LayoutLM": layoutlm,
    "Kerple": kerple,
    "FIRE": fire,
    "Sandwich": sandwich,
    "Window": window,
    "Decomposed": decomposed,
    "Shaw": shaw,
    "TransformerXL": transformer_xl,
    "DeBERTa": deberta,
    "CoPE": cope,
    "Inkling": inkling,
    "FoX": fox,
}


def query_scale(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    p, a, f = x.q_positions[0].astype(float), o.get("amount", 0.1), o.get("floor", 8192)
    rules = {
        "llama4": lambda: 1 + a * np.log(1 + np.floor((p + 1) / f)),
        "ministral3": lambda: 1 + a * np.log(1 + np.floor(p / f)),
        "beam": lambda: (1 + (p + 1) / f) ** a,
        "inkling": lambda: 1 + a * np.log(np.maximum(1, (p + 1) / f)),
    }
    return rules[o.get("rule", "llama4")]()[:, None, :, None]


def ssmax(o: dict[str, Any], w: Numbers, x: Inputs) -> Array:
    factor = w["weight"][:, None] * np.log(x.q_positions[0] + 1.0)[:, None]
    return (factor + (w["bias"][:, None] if "bias" in w else 0))[..., None]


def parts(spec: Spec, w: Numbers) -> list[tuple[Spec, Numbers]]:
    """Return the parts of a stack with their own parameters, or the spec itself."""
    names = [f"parts.{i}." for i in range(len(spec.parts))]
    numbers = [{key.removeprefix(name): x for key, x in w.items() if key.startswith(name)} for name in names]
    return list(zip(spec.parts, numbers, strict=True)) or [(spec, w)]


def axes_of(spec: Spec) -> int:
    """Return the number of coordinates of a position."""
    return 3 if spec.kind == "LayoutLM" else len(spec.options.get("size", (1,)))


def turned(spec: Spec, x: Inputs) -> Inputs:
    """Return queries and keys as this encoding rotates them."""
    D, q_at, k_at = x.q.shape[-1], x.q_positions[0][:, None, :, None], x.k_positions[0][:, None, :, None]
    for part in spec.flat():
        if part.kind == "Rotary":
            theta, pairing = np.array(ladder(D, part.options.get("base", 1e4)), float), part.options["pairing"]
            x = replace(x, q=rotated(x.q, q_at * theta, pairing), k=rotated(x.k, k_at * theta, pairing))
    return x


def factor(spec: Spec, w: Numbers, x: Inputs) -> Array:
    """Return the factor on the scores of each query."""
    if spec.kind == "QueryScale":
        return query_scale(spec.options, w, x)
    if spec.kind == "Inkling":
        return inkling_factor(spec.options, x.q_positions[0])[:, None, :, None]
    return ssmax(spec.options, w, x) if spec.kind == "SSMax" else np.ones((1, 1, 1, 1))


def bias(spec: Spec, w: Numbers, x: Inputs) -> Array:
    """Return the bias that is added to the scores."""
    return BIASES[spec.kind](spec.options, w, x) if spec.kind in BIASES else np.zeros((1, 1, 1, 1))


def attend(spec: Spec, w: Numbers, x: Inputs) -> tuple[Array, float]:
    """Return the softmax of visible scores times the values (zeros if no key is visible), and the largest score."""
    x = turned(spec, x)
    of_parts = parts(spec, w)
    products = np.einsum("bhtd,bhsd->bhts", x.q, x.k)
    plain = products * x.scale * math.prod(factor(part, numbers, x) for part, numbers in of_parts)
    x = replace(x, scores=plain)
    scores = plain + sum(bias(part, numbers, x) for part, numbers in of_parts)
    visible = np.broadcast_to(x.visible, scores.shape)
    masked = np.where(visible, scores, -np.inf)
    top = masked.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    weights = np.exp(masked - top)
    total = weights.sum(-1, keepdims=True)
    largest = np.where(visible, np.maximum(np.abs(plain), np.abs(scores)), 0).max(initial=0)
    return weights / np.where(total == 0, 1, total) @ x.v, float(largest)
