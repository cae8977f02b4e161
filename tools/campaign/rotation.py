"""Cases of rotation and ``rerotate`` at any position in float64, with all encodings that rotate."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch
from tools.campaign.core import Area, Case, agree, normal, numpy
from tools.campaign.oracles import rotation as oracle
from torch import Tensor

import posenc
from posenc.encodings import axes as axis_maps
from posenc.errors import InvalidArgument

Array = np.ndarray
HEADED = {"PoPE", "FoPE", "LearnedRotary"}
REFUSALS = ("cannot be interleaved", "the number of pairs must be a multiple of the number of axes")
"""Parts of the messages that refuse invalid random axis maps."""


def draw_axes(r: Random, pairs: int) -> dict[str, Any]:
    """Draw an axis map for this many pairs by the name of its function; empty if there are too few pairs."""
    A, name = r.choice((2, 3)), r.choice(sorted(axis_maps.MAPS))
    if pairs < A:
        return {}
    cuts, each = sorted(r.sample(range(1, pairs), A - 1)), r.randrange(1, (pairs - 1) // (A - 1) + 1)
    sections = tuple(b - a for a, b in zip((0, *cuts), (*cuts, pairs), strict=True))
    numbers = {
        "alternating": (A, pairs),
        "dealt": (A, pairs),
        "first_last": (pairs - each * (A - 1), *[each] * (A - 1)),
        "strided": tuple(sorted(sections, reverse=True)),
    }
    order = r.choice((None, tuple(r.sample(range(A), A))))
    units = r.choice((None, None, tuple(r.choice(("1/14", "3", "2/7")) for _ in range(A))))
    more = {"order": order, "units": units, "turns": r.random() < 0.2}
    return {"name": name, "numbers": numbers.get(name, sections), **more}


class RotationCase(Case):
    """A rotation of queries and keys, or of only keys."""

    def judge(self) -> None:
        try:
            (judge_moved if self.mode == "rerotate" else judge_rotated)(Scene(self))
        except InvalidArgument as refusal:
            if not any(words in str(refusal) for words in REFUSALS):
                raise

    def build(self) -> posenc.Encoding:
        """Return the library's module."""
        settings = dict(self.settings)
        if self.axes:
            more = {name: self.axes[name] for name in ("order", "units", "turns")}
            settings["axes"] = axis_maps.MAPS[self.axes["name"]](*self.axes["numbers"], **more)
        module: posenc.Encoding = getattr(posenc, self.kind)(self.head_dim, **settings)
        return module

    def hands(self) -> list[tuple[int, Any]]:
        """Return the axis and the frequency of every angle."""
        o, D, kind, base = self.settings, self.head_dim, self.kind, self.settings.get("base", 1e4)
        if self.axes:
            units, turns = self.axes["units"], self.axes["turns"]
            layout = oracle.axes_of_pairs(self.axes["name"], self.axes["numbers"], self.axes["order"])
            ladders = {n: oracle.ladder(2 * n, base) for _, _, n in layout}
            return [(a, oracle.in_units(ladders[n][i], units and units[a], turns)) for a, i, n in layout]
        plain = oracle.ladder(o.get("rotary_dim", D) * (2 if kind == "PoPE" else 1), base)
        if kind == "FoPE":
            plain = plain[: o.get("kept") or oracle.finishing(plain, o["num_positions"])]
        return [(0, hand) for hand in plain]


class Scene:
    """A case's encoding and tensors, and the oracle's rotation."""

    def __init__(self, case: RotationCase) -> None:
        self.case, self.random = case, Random(case.seed)
        r, B, D, last = self.random, case.batch, case.head_dim, case.keys - case.queries
        self.encoding = case.build().double()
        for name, parameter in self.encoding.named_parameters():
            parameter.data.copy_(normal(r, *parameter.shape, std=0.3 if name == "frequencies" else 0.7))
        self.numbers = {name: numpy(p) for name, p in self.encoding.named_parameters()}
        self.A = self.encoding.axes
        self.k_positions = self.draw_positions()
        self.q_positions = self.k_positions[..., last:]
        self.q = normal(r, B, case.kv_heads * case.group, case.queries, D)
        self.k = normal(r, B, case.kv_heads, case.keys, D)

    def draw_positions(self) -> Tensor:
        """Draw int64 positions of shape ``(T,)``, ``(B, T)``, ``(A, T)`` or ``(A, B, T)``."""
        case, r, last = self.case, self.random, self.encoding.position_limit - 1
        shape = (*[self.A] * (self.A > 1), *[case.batch] * case.rows, case.keys)
        ranges = {
            "near": range(60),
            "far": range(last - 99, last + 1),
            "any": range(last + 1),
            "some": range(min(100_000, last + 1)),
        }
        values = torch.tensor(r.choices(ranges[case.where], k=int(np.prod(shape))))
        signs = torch.tensor(r.choices((1, -1), k=len(values)))
        return (values * signs if case.settings.get("signed") else values).reshape(shape)

    def turned(self, x: Array, positions: Tensor, side: str) -> Array:
        """Return vectors as rotated by the oracle."""
        o, kind, heads = self.case.settings, self.case.kind, x.shape[1]
        at = numpy(positions)
        at = at[None] if self.A == 1 else at
        at = at[:, None] if at.ndim == 2 else at  # (A, B, T)
        if kind == "LearnedRotary":
            F = self.numbers["frequencies"]
            turns = [[oracle.phases(at[a], F[a, g].tolist()) for a in range(self.A)] for g in range(F.shape[1])]
            angles = np.stack([np.sum(group, 0) for group in turns], 1).repeat(heads // F.shape[1], 1)
        else:
            phases = [oracle.phases(at[axis], [hand])[..., 0] for axis, hand in self.case.hands()]
            angles = np.stack(phases, -1)[:, None]
        if kind == "PoPE":
            angles = angles - self.numbers["weight"][:, None] if side == "q" else angles
            return oracle.polar(x, angles)
        if kind == "FoPE":
            waves = {name: np.einsum("bktj,gji->bgti", wave(angles), self.numbers[name]) for name, wave in WAVES}
            missing = [(0, 0)] * 3 + [(0, x.shape[-1] // 2 - waves["cos"].shape[-1])]
            cos, sin = (np.pad(waves[name], missing, constant_values=1.0) for name, _ in WAVES)
            groups = heads // cos.shape[1]
            return oracle.mixed(x, cos.repeat(groups, 1), sin.repeat(groups, 1), o["pairing"])
        scale: Array | float = 1.0
        if kind == "XPos":
            zeta = (np.arange(angles.shape[-1]) / angles.shape[-1] + 0.4) / 1.4
            scale = zeta ** (at[0][:, None, :, None] * (1 if side == "q" else -1) / o["scale_base"])
        return oracle.mixed(x, scale * np.cos(angles), scale * np.sin(angles), o["pairing"])

    def hold(self, what: str, got: Tensor, x: Tensor, positions: Tensor) -> None:
        """Compare with the oracle up to a few float64 rounding errors and the rounding of a 64-bit phase."""
        want, size = self.turned(numpy(x), positions, what[0]), 5 if self.case.kind == "FoPE" else 1
        agree(what, got, want, 8 * size * float(x.abs().max() + np.abs(want).max()) * self.rounding(positions))

    def rounding(self, *positions: Tensor) -> float:
        """Return the allowed error of a rotated number of about 1 at these positions."""
        learned = self.case.kind == "LearnedRotary"  # its frequencies are at best float64
        return self.A * (max(float(at.abs().max()) for at in positions) * (3e-16 if learned else 4e-19) + 1e-15)


WAVES = (("cos", np.cos), ("sin", np.sin))


def judge_rotated(scene: Scene) -> None:
    """Check the queries and the keys: all keys or, as with a cache, only the keys of the new tokens."""
    case, same = scene.case, scene.case.queries == scene.case.keys
    placed = scene.encoding.at(scene.q_positions, None if same else scene.k_positions, dtype=torch.float64)
    new = case.mode == "new keys"
    k, at = (scene.k[:, :, -case.queries :], scene.q_positions) if new else (scene.k, scene.k_positions)
    rotated_q, rotated_k = placed.rotate(scene.q, k)
    scene.hold("queries", rotated_q, scene.q, scene.q_positions)
    scene.hold("keys", rotated_k, k, at)


def judge_moved(scene: Scene) -> None:
    """Check that moving cached keys equals rotating the original keys at the new positions."""
    if scene.encoding.not_rerotatable:
        return
    to_positions = scene.draw_positions() if scene.random.random() < 0.8 else None
    at = scene.k_positions if to_positions is None else to_positions
    cached = torch.from_numpy(scene.turned(numpy(scene.k), scene.k_positions, "k"))
    want = scene.turned(numpy(scene.k), at, "k")
    got = posenc.rerotate(cached, scene.k_positions, scene.encoding, scene.encoding, to_positions)
    size = float(np.abs(want).max() + cached.abs().max() + 1)
    agree("keys moved", got, want, 8 * size * scene.rounding(scene.k_positions, at))


def sometimes(r: Random, share: float, **settings: Any) -> dict[str, Any]:
    return settings if r.random() < share else {}


def draw_pairing(r: Random) -> dict[str, Any]:
    return {"pairing": r.choice(("half", "interleaved"))}


KINDS: dict[str, Callable[[Random, int, int], dict[str, Any]]] = {
    "Rotary": lambda r, D, K: {
        **draw_pairing(r),
        "base": r.choice((1e4, 5e5, 50.0)),
        **sometimes(r, 0.3, rotary_dim=r.randrange(2, D + 1, 2)),
        **sometimes(r, 0.25, signed=True),
    },
    "XPos": lambda r, D, K: {
        **draw_pairing(r),
        "base": r.choice((1e4, 5e5, 50.0)),
        "scale_base": r.choice((64, 512)),
    },
    "PoPE": lambda r, D, K: {
        "base": r.choice((1e4, 5e5, 50.0)),
        "start": "uniform",
        **sometimes(r, 0.4, rotary_dim=r.randrange(1, D)),
    },
    "FoPE": lambda r, D, K: {
        **draw_pairing(r),
        "num_positions": r.choice((16, 64, 4096)),
        "groups": r.choice((1, K)),
        **sometimes(r, 0.4, kept=r.randrange(1, D // 2 + 1)),
    },
    "LearnedRotary": lambda r, D, K: {
        **draw_pairing(r),
        "axes": (A := r.choice((1, 2))),
        "groups": r.choice((1, K)),
        "base": r.choice((10.0, 1e4)),
        **sometimes(r, 0.3, rotary_dim=2 * A),
        **sometimes(r, 0.25, signed=True),
    },
}
"""All classes with settings that change their formulas, for D channels and K key heads."""


def draw(r: Random) -> RotationCase:
    """Draw a case within the library's contracts."""
    kind = r.choice((*KINDS, *["Rotary"] * 5))
    D, K, group = r.choice((4, 8, 16, 20, 24)), r.choice((1, 2)), r.choice((1, 2, 3))
    settings = KINDS[kind](r, D, K) | ({"heads": K * group} if kind in HEADED else {})
    pairs = settings.get("rotary_dim", D) // (1 if kind == "PoPE" else 2)
    axes = draw_axes(r, pairs) if kind == "Rotary" and r.random() < 0.4 else {}
    queries = r.choice((1, 1, 2, 5, 12))
    return RotationCase(
        seed=r.getrandbits(32),
        kind=kind,
        settings=settings,
        axes=axes,
        batch=r.choice((1, 2, 3)),
        kv_heads=K,
        group=group,
        head_dim=D,
        queries=queries,
        keys=queries + r.choice((0, 0, 1, 3)),
        where=r.choice(("near", "some", "far", "any")),
        rows=r.random() < 0.4,  # whether each row of the batch has its own positions
        mode=r.choice(("all keys", "all keys", "new keys", "rerotate")),
    )


AREA = Area("rotation", draw)
