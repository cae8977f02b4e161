"""Rotations: every encoding that turns queries and keys, at any position, in any memory, and keys turned again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import torch
from tools.campaign.core import Area, Wrong, agree, eps, normal, numpy, slope
from tools.campaign.oracles import rotation as oracle
from torch import Tensor

import posenc
from posenc import scaling
from posenc.encodings import axes as axis_maps
from posenc.errors import BackendUnavailable, InvalidArgument

Array = np.ndarray
Settings = tuple[tuple[str, Any], ...]
LENGTHS = {"DynamicNTK", "LongRoPE"}
MODES = ("both", "new keys", "all keys", "steps", "out", "in place", "slot", "strided", "gradient", "rerotate")


def draw_scaling(r: Random, pairs: int) -> tuple[str, dict[str, Any]]:
    """A scaling by class name, its settings, and the length that it is planned for."""
    factor = r.choice((1.0, 2.0, 3.7, 16.0))
    factors = [tuple(r.choice((1.0, 1.5, 7.25)) for _ in range(pairs)) for _ in range(2)]
    L = r.choice((64, 512, 4096))
    choices: list[tuple[str, dict[str, Any]]] = [
        ("Default", {}),
        ("Linear", {"factor": factor}),
        ("Proportional", {"fraction": r.choice((0.0, 0.25, 0.5, 1.0)), "factor": factor}),
        ("PerPair", {"factors": factors[0], "attention_factor": r.choice((1.0, 1.19))}),
        (
            "Llama3",
            {
                "factor": factor,
                "original_length": L,
                "low_freq_factor": 1.0,
                "high_freq_factor": r.choice((2.0, 4.0)),
            },
        ),
        (
            "LongRoPE",
            {
                "short_factors": factors[0],
                "long_factors": factors[1],
                "original_length": L,
                "factor": factor,
                "total_length": r.choice((1, L, L + 1, 10 * L)),
            },
        ),
    ]
    yarn: dict[str, Any] = {"factor": factor, "original_length": L, "ramp": r.choice(("dimension", "rotations"))}
    yarn |= {"truncate": r.random() < 0.5} if yarn["ramp"] == "dimension" else {}
    yarn |= r.choice(({}, {"attention_factor": 1.3}, {"mscale": 0.7, "mscale_all_dim": 1.0}, {"beta_fast": 8.0}))
    choices += [("YaRN", yarn)] * 2
    if pairs > 1:
        choices += [("NTK", {"factor": factor, "form": r.choice(("base", "fixed", "abf"))})]
        choices += [
            ("DynamicNTK", {"factor": factor, "original_length": L, "total_length": r.choice((1, L, 3 * L))})
        ]
    return r.choice(choices)


def make_scaling(name: str, settings: dict[str, Any]) -> scaling.Scaling:
    """The library's."""
    settings = dict(settings)
    length = settings.pop("total_length", None)
    recipe = getattr(scaling, name)(**settings)
    return scaling.planned(recipe, length)


def draw_axes(r: Random, pairs: int) -> dict[str, Any] | None:
    """An axis map over so many pairs by the name of its maker."""
    name = r.choice(sorted(axis_maps.MAPS))
    A = r.choice((2, 3))
    if pairs < A:
        return None
    numbers: tuple[int, ...] = (A, pairs)
    if name in ("alternating", "dealt"):
        if pairs % A:
            return None
    elif name == "first_last":
        each = r.randrange(1, (pairs - 1) // (A - 1) + 1)
        if pairs - each * (A - 1) < 1:
            return None
        numbers = (pairs - each * (A - 1), *[each] * (A - 1))
    else:
        cuts = sorted(r.sample(range(1, pairs), A - 1))
        numbers = tuple(b - a for a, b in zip((0, *cuts), (*cuts, pairs), strict=True))
        numbers = tuple(sorted(numbers, reverse=True)) if name == "strided" else numbers
    order = r.choice((None, tuple(r.sample(range(A), A))))
    units = r.choice((None, None, tuple(r.choice(("1/14", "3", "2/7")) for _ in range(A))))
    return {"name": name, "numbers": numbers, "order": order, "units": units, "turns": r.random() < 0.2}


@dataclass(frozen=True)
class RotationCase:
    """One rotation of queries and keys, or of keys alone."""

    seed: int
    kind: str
    settings: Settings
    scaling: tuple[str, Settings]
    axes: Settings
    batch: int
    kv_heads: int
    group: int
    head_dim: int
    queries: int
    keys: int
    where: str
    rows: bool
    """Whether every row of the batch has positions of its own."""
    dtype: str
    tables: str
    mode: str
    backend: str

    def judge(self) -> None:
        try:
            scene = Scene(self)
        except InvalidArgument as refusal:
            if "in the wrong order" not in str(refusal) and "cannot be dealt out" not in str(refusal):
                raise
            return
        try:
            JUDGES[self.mode](scene)
        except BackendUnavailable:
            return


class Scene:
    """A case's encoding and tensors, and what the oracle makes of vectors at positions."""

    def __init__(self, case: RotationCase) -> None:
        self.case, r = case, Random(case.seed)
        self.random = r
        self.options, self.axes = dict(case.settings), dict(case.axes)
        self.scaling = case.scaling[0], dict(case.scaling[1])
        self.dtype, self.at_dtype = getattr(torch, case.dtype), getattr(torch, case.tables)
        self.encoding = self.build(self.scaling)
        with torch.no_grad():
            for name, parameter in self.encoding.named_parameters():
                std = 0.7 if name != "frequencies" else 0.3
                parameter.copy_(normal(r, *parameter.shape, std=std))
        self.A = self.encoding.axes
        self.k_positions = self.draw_positions(case.keys)
        self.q_positions = self.k_positions[..., case.keys - case.queries :]
        self.q = normal(r, case.batch, case.kv_heads * case.group, case.queries, case.head_dim, dtype=self.dtype)
        self.k = normal(r, case.batch, case.kv_heads, case.keys, case.head_dim, dtype=self.dtype)

    def build(self, how: tuple[str, dict[str, Any]]) -> posenc.Encoding:
        """The library's module."""
        case, o = self.case, self.options
        kind, D, heads = case.kind, case.head_dim, case.kv_heads * case.group
        if kind == "channel":
            return posenc.ChannelRotary(D, **o)
        if kind == "fope":
            return posenc.FoPE(D, **o)
        if kind == "learned":
            return posenc.LearnedRotary(D, **o)
        if kind == "pope":
            return posenc.PoPE(D, heads, scaling=make_scaling(*how), **o)
        if kind == "xpos":
            return posenc.XPos(D, scaling=make_scaling(*how), **o)
        maps = dict(self.axes)
        name, numbers = maps.pop("name", None), maps.pop("numbers", ())
        axes = None if name is None else axis_maps.MAPS[name](*numbers, **maps)
        return posenc.Rotary(D, scaling=make_scaling(*how), axes=axes, backend=case.backend, **o)  # type: ignore[arg-type]

    def draw_positions(self, length: int) -> Tensor:
        """int64 ``(T,)``, ``(B, T)``, ``(A, T)`` or ``(A, B, T)``."""
        case, r = self.case, self.random
        shape = ([self.A] if self.A > 1 else []) + ([case.batch] if case.rows else []) + [length]
        count = int(np.prod(shape))
        last = self.encoding.position_limit - 1
        draws: dict[str, Callable[[], int]] = {
            "near": lambda: r.randrange(60),
            "far": lambda: last - r.randrange(100),
            "any": lambda: r.randrange(last + 1),
            "some": lambda: r.randrange(min(100_000, last + 1)),
        }
        values = [draws[case.where]() for _ in range(count)]
        if self.options.get("signed"):
            values = [value * r.choice((1, -1)) for value in values]
        if case.where == "near" and not case.rows and self.A == 1:
            values = sorted(values)
        return torch.tensor(values, dtype=torch.int64).reshape(shape)

    def phases(self, positions: Tensor, side: str, how: tuple[str, dict[str, Any]]) -> tuple[Array, float]:
        """Angles (B, heads or 1, T, hands) and the attention factor."""
        case, o, kind = self.case, self.options, self.case.kind
        at = numpy(positions)
        at = at[None] if self.A == 1 else at
        at = at[:, None] if at.ndim == 2 else at  # (A, B, T)
        factor = 1.0
        if kind == "learned":
            F = numpy(dict(self.encoding.named_parameters())["frequencies"])
            angles = np.stack(
                [sum(oracle.phases(at[a], F[a, g].tolist()) for a in range(self.A)) for g in range(F.shape[1])], 1
            )
            return angles.repeat(self.heads(side) // F.shape[1], 1), factor
        if kind == "channel":
            base = o.get("base") or {"gemma4-vision": 100.0, "ernie-image": 256.0}.get(o["layout"], 1e4)
            table = oracle.channel_tables(o["layout"], case.head_dim)
            ladders = {n: oracle.ladder(2 * n, base)[0] for *_, n in table}
            hands = [(axis, ladders[n][index]) for _, _, axis, index, n in table]
        elif self.axes:
            units, turns = self.axes.get("units"), bool(self.axes.get("turns"))
            layout = oracle.axes_of_pairs(self.axes["name"], self.axes["numbers"], self.axes.get("order"))
            ladders = {}
            for _, _, n in layout:
                ladders[n], factor = oracle.ladder(2 * n, o.get("base", 1e4), how)
            hands = [
                (axis, oracle.in_units(ladders[n][rung], units and units[axis], turns)) for axis, rung, n in layout
            ]
            factor = oracle.ladder(2 * layout[0][2], o.get("base", 1e4), how)[1]
        elif kind == "fope":
            plain, _ = oracle.ladder(case.head_dim, o.get("base", 1e4))
            count = o.get("kept") or oracle.finishing(plain, o["num_positions"])
            hands = [(0, hand) for hand in plain[:count]]
        else:
            dim = 2 * o.get("rotary_dim", case.head_dim) if kind == "pope" else o.get("rotary_dim", case.head_dim)
            dim = 2 * case.head_dim if kind == "pope" and "rotary_dim" not in o else dim
            plain, factor = oracle.ladder(dim, o.get("base", 1e4), how)
            hands = [(0, hand) for hand in plain]
        columns = [oracle.phases(at[axis], [hand])[..., 0] for axis, hand in hands]
        return np.stack(columns, -1)[:, None], factor

    def heads(self, side: str) -> int:
        return self.case.kv_heads * (self.case.group if side == "q" else 1)

    def turned(
        self, x: Array, positions: Tensor, side: str, how: tuple[str, dict[str, Any]] | None = None, **moved: Array
    ) -> Array:
        """The oracle's; ``moved`` are numbers in place of parameters."""
        o, kind = self.options, self.case.kind
        weights = {name: numpy(p) for name, p in self.encoding.named_parameters()} | moved
        angles, factor = self.phases(positions, side, how or self.scaling)
        if "frequencies" in moved:
            at = numpy(positions)
            at = at[None] if self.A == 1 else at
            at = at[:, None] if at.ndim == 2 else at
            angles = np.einsum("abt,agi->bgti", at.astype(float), moved["frequencies"])
            angles = angles.repeat(self.heads(side) // angles.shape[1], 1)
        if kind == "xpos":
            zeta = (np.arange(angles.shape[-1]) / angles.shape[-1] + 0.4) / 1.4
            at = np.atleast_2d(numpy(positions))[:, None, :, None] * (1 if side == "q" else -1)
            factor = factor * zeta ** (at / o["scale_base"])
        if kind == "channel":
            return oracle.by_channels(x, angles, oracle.channel_tables(o["layout"], self.case.head_dim))
        if kind == "pope":
            angles = angles - weights["weight"][:, None] if side == "q" else angles
            polar = oracle.polar(x, angles)
            n = 2 * angles.shape[-1]
            return np.concatenate((polar[..., :n] * factor, polar[..., n:]), -1)
        if kind == "fope":
            cos, sin = (
                np.einsum("bktj,gji->bgti", wave(angles), weights[name])
                for name, wave in (("cos", np.cos), ("sin", np.sin))
            )
            missing = [(0, 0)] * 3 + [(0, self.case.head_dim // 2 - cos.shape[-1])]
            cos, sin = (
                np.pad(t, missing, constant_values=1.0).repeat(self.heads(side) // t.shape[1], 1)
                for t in (cos, sin)
            )
            return oracle.mixed(x, cos, sin, o["pairing"])
        return oracle.mixed(x, factor * np.cos(angles), factor * np.sin(angles), o["pairing"])

    def allowed(self, want: Array, x: Array, dtype: torch.dtype) -> Array:
        """One rounding of tables and result, products in the wider type, and a phase of 64 bits of a turn."""
        wide = torch.promote_types(dtype, self.at_dtype)
        farthest = float(self.k_positions.abs().max())
        phase = farthest * 1.8e-19 + eps(self.at_dtype) * 1.01
        if self.case.kind == "learned":
            phase += farthest * 3e-16  # F is a float64 at best
        if self.options.get("phases") == "float32":
            phase += farthest * 2.0**-22 * 6.3 + 4e-7
        size = (
            4 * float(np.abs(x).max(initial=0) + np.abs(want).max(initial=0)) * (1 + 4 * (self.case.kind == "fope"))
        )
        return (
            self.A * size * (phase + 3 * eps(wide))
            + np.abs(want) * 2.01 * eps(dtype)
            + 1e-7 * (dtype == torch.float16)
        )

    def hold(self, what: str, got: Tensor, x: Tensor, positions: Tensor, side: str) -> None:
        want = self.turned(numpy(x), positions, side)
        if got.dtype != x.dtype:
            raise Wrong(f"{what} is {got.dtype}; expected {x.dtype}")
        agree(what, got, want, self.allowed(want, numpy(x), x.dtype))

    def placed(self) -> posenc.Placed:
        same = self.case.queries == self.case.keys
        return self.encoding.at(self.q_positions, None if same else self.k_positions, dtype=self.at_dtype)


def judge_both(scene: Scene) -> None:
    """All keys, whether the queries' own or more."""
    q, k = scene.placed().rotate(scene.q, scene.k)
    scene.hold("queries", q, scene.q, scene.q_positions, "q")
    scene.hold("keys", k, scene.k, scene.k_positions, "k")


def judge_new_keys(scene: Scene) -> None:
    """The keys of the new tokens alone, while the others are in a cache."""
    new = scene.k[:, :, scene.case.keys - scene.case.queries :]
    q, k = scene.placed().rotate(scene.q, new)
    scene.hold("queries", q, scene.q, scene.q_positions, "q")
    scene.hold("new keys", k, new, scene.q_positions, "k")


def judge_steps(scene: Scene) -> None:
    """Several layers, and then other types and modes, by one placed encoding."""
    placed, r = scene.placed(), scene.random
    for turn in range(4):
        q, k = (normal(r, *x.shape, dtype=x.dtype) for x in (scene.q, scene.k))
        if turn == 2 and scene.dtype in (torch.float32, torch.bfloat16) and scene.case.kind != "xpos":
            q, k = q.half(), k.half()
        with torch.inference_mode(r.random() < 0.5):
            a, b = placed.rotate(q, k)
        scene.hold(f"queries of layer {turn}", a, q, scene.q_positions, "q")
        scene.hold(f"keys of layer {turn}", b, k, scene.k_positions, "k")


def judge_out(scene: Scene) -> None:
    """Into memory that is there: fresh, the inputs' own, or a slot of a cache."""
    placed: Any = scene.placed()
    q, k = scene.q.clone(), scene.k.clone()
    if scene.case.mode == "in place":
        out = q, k
    elif scene.case.mode == "out":
        out = torch.full_like(q, torch.nan), torch.full_like(k, torch.nan)
    else:
        before = scene.random.randrange(3)
        cache = k.new_full((*k.shape[:2], k.shape[2] + 5, k.shape[3]), 7.0)
        out = torch.full_like(q, torch.nan), cache[:, :, before : before + k.shape[2]]
    rotated = placed.rotate(q, k, out=out)
    for name, x, memory, got, positions in (
        ("queries", scene.q, out[0], rotated[0], scene.q_positions),
        ("keys", scene.k, out[1], rotated[1], scene.k_positions),
    ):
        scene.hold(f"{name} in out", memory, x, positions, name[0])
        scene.hold(f"{name} returned", got, x, positions, name[0])
    if scene.case.mode == "slot":
        cache[:, :, before : before + k.shape[2]] = 7.0
        if not (cache == 7.0).all():
            raise Wrong("keys were written beside their slot of the cache")


def judge_strided(scene: Scene) -> None:
    """Views of (B, T, heads, channels), of wider heads, and of one head seen as several."""
    q, k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (scene.q, scene.k))
    wide = torch.cat((k, k + 1), -1)[..., : k.shape[-1]]
    shared = scene.k[:, :1].expand(-1, k.shape[1], -1, -1)
    for keys in (k, wide, shared):
        a, b = scene.placed().rotate(q, keys)
        scene.hold("queries", a, q, scene.q_positions, "q")
        scene.hold("keys", b, keys, scene.k_positions, "k")


def judge_gradient(scene: Scene) -> None:
    """Derivatives of Σ rotated·g: of queries and keys, and of parameters where there are some."""
    scene.q, scene.k = scene.q.double().requires_grad_(), scene.k.double().requires_grad_()
    scene.encoding.double()
    scene.dtype = scene.at_dtype = torch.float64
    placed = scene.placed()
    if scene.random.random() < 0.3:
        with torch.no_grad():
            placed.rotate(scene.q, scene.k)
    rows = placed.rotate(scene.q, scene.k)
    weights = [normal(scene.random, *x.shape) for x in rows]
    loss = sum((x * w).sum() for x, w in zip(rows, weights, strict=True))
    parameters = dict(scene.encoding.named_parameters())
    leaves = {"q": scene.q, "k": scene.k} | (parameters if scene.case.where == "near" else {})
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)  # type: ignore[arg-type]
    among = list(zip(leaves, grads, strict=True))
    name, grad = scene.random.choice(among if scene.random.random() < 0.3 else among[2:] or among)
    direction = numpy(normal(scene.random, *leaves[name].shape))
    start = numpy(leaves[name])

    def along(step: float) -> float:
        moved = {name: start + step * direction}
        q, k = (moved.pop(side, numpy(x)) for side, x in (("q", scene.q), ("k", scene.k)))
        sides = ((q, scene.q_positions, "q"), (k, scene.k_positions, "k"))
        turned = [scene.turned(x, positions, side, None, **moved) for x, positions, side in sides]
        return sum(float((x * numpy(w)).sum()) for x, w in zip(turned, weights, strict=True))

    steep = 0.0 if grad is None else float((grad * torch.from_numpy(direction)).sum())
    size = float(np.linalg.norm(direction)) * sum(float(w.norm()) for w in weights)
    agree(f"derivative along {name}", steep, slope(along, steep), 1e-6 * (1 + size))


def judge_rerotate(scene: Scene) -> None:
    """Keys in a cache, moved: what comes out is what turning the key itself there would have given."""
    case, r = scene.case, scene.random
    if scene.encoding.not_rerotatable:
        return
    other = scene.scaling
    if case.kind in ("rotary", "xpos") and not (scene.axes or scene.options.get("phases")):
        pairs = scene.options.get("rotary_dim", case.head_dim) // 2
        other = draw_scaling(r, pairs)
    try:
        to = scene.encoding if other == scene.scaling else scene.build(other)
    except InvalidArgument:
        return
    to_positions = scene.draw_positions(case.keys) if r.random() < 0.8 else None
    at = scene.k_positions if to_positions is None else to_positions
    cached = torch.from_numpy(scene.turned(numpy(scene.k), scene.k_positions, "k")).to(scene.dtype)
    start: posenc.Encoding = scene.encoding
    plain = r.random()
    want = scene.turned(numpy(scene.k), at, "k", other)
    if plain < 0.15 and case.kind != "pope":
        start, cached = posenc.NoPE(), scene.k
    elif plain < 0.3 and case.kind != "pope":
        to, want = posenc.NoPE(), numpy(scene.k)
    elif plain < 0.45 and case.kind != "pope" and not scene.options.get("signed"):
        start, to = posenc.Stack(start, posenc.ALiBi(4)), posenc.Stack(to, posenc.ALiBi(4))
    got = posenc.rerotate(cached, scene.k_positions, start, to, to_positions)
    farthest = float(max(scene.k_positions.abs().max(), at.abs().max()))
    size = float(np.abs(want).max(initial=0) + np.abs(numpy(cached)).max(initial=0) + 1)
    exact = farthest * (3e-16 if case.kind == "learned" else 4e-19) * scene.A + 1e-15
    if scene.options.get("phases"):
        exact += farthest * 2.0**-20 + 1e-6
    agree("keys moved", got, want, 8 * size * (eps(scene.dtype) + exact))


JUDGES: dict[str, Callable[[Scene], None]] = {
    "both": judge_both,
    "all keys": judge_both,
    "new keys": judge_new_keys,
    "steps": judge_steps,
    "out": judge_out,
    "in place": judge_out,
    "slot": judge_out,
    "strided": judge_strided,
    "gradient": judge_gradient,
    "rerotate": judge_rerotate,
}


def draw(r: Random) -> RotationCase:
    """A case that the library's contracts admit."""
    kind = r.choice(("rotary",) * 6 + ("xpos", "pope", "fope", "learned", "channel"))
    D = r.choice((4, 8, 16, 20, 24))
    kv_heads, group = r.choice((1, 2)), r.choice((1, 2, 3))
    options: dict[str, Any] = {"pairing": r.choice(("half", "interleaved"))}
    axes: dict[str, Any] | None = None
    how: tuple[str, dict[str, Any]] = ("Default", {})
    base = r.choice((1e4, 5e5, 50.0))
    if kind == "rotary":
        options |= {"base": base} | ({"rotary_dim": r.choice(range(2, D + 1, 2))} if r.random() < 0.3 else {})
        pairs = options.get("rotary_dim", D) // 2
        axes = draw_axes(r, pairs) if r.random() < 0.4 else None
        how = draw_scaling(r, pairs) if axes is None else ("Default", {})
        if axes is not None and r.random() < 0.3:
            how = ("Linear", {"factor": 4.0})
        options |= {"signed": True} if r.random() < 0.25 else {}
        options |= {"phases": "float32"} if r.random() < 0.1 and axes is None else {}
    elif kind == "xpos":
        options |= {"base": base, "scale_base": r.choice((64, 512))}
        how = draw_scaling(r, D // 2)
    elif kind == "pope":
        options = {"base": base, "start": "uniform"}
        options |= {"rotary_dim": r.randrange(1, D)} if r.random() < 0.4 else {}
        how = draw_scaling(r, options.get("rotary_dim", D))
    elif kind == "fope":
        options |= {"num_positions": r.choice((16, 64, 4096)), "groups": r.choice((1, kv_heads))}
        options |= {"kept": r.randrange(1, D // 2 + 1)} if r.random() < 0.4 else {}
    elif kind == "learned":
        A = r.choice((1, 2))
        options |= {"axes": A, "groups": r.choice((1, kv_heads)), "base": r.choice((10.0, 1e4))}
        options |= {"rotary_dim": 2 * A} if r.random() < 0.3 else {}
        options |= {"signed": True} if r.random() < 0.25 else {}
    else:
        D = r.choice((16, 32))
        options = {"layout": r.choice(("gemma4-vision", "v-jepa2", "ernie-image", "hunyuan-vl"))}
        options |= {"base": base} if r.random() < 0.3 else {}
        options |= {"signed": True} if r.random() < 0.25 else {}
    mode = r.choice(MODES)
    if kind in ("learned", "fope", "pope") and r.random() < 0.25:
        mode = "gradient"
    if mode in ("out", "in place", "slot") and kind not in ("rotary", "xpos"):
        mode = "both"
    queries = r.choice((1, 1, 2, 5, 12))
    more = r.choice((1, 3)) if mode in ("new keys", "all keys") or r.random() < 0.3 else 0
    if mode == "new keys" and more == 0:
        more = 1
    wide = options.get("phases") == "float32" or (kind in ("learned", "xpos") and mode == "gradient")
    case = RotationCase(
        seed=r.getrandbits(32),
        kind=kind,
        settings=tuple(options.items()),
        scaling=(how[0], tuple(how[1].items())),
        axes=tuple((axes or {}).items()),
        batch=r.choice((1, 2, 3)),
        kv_heads=kv_heads,
        group=group,
        head_dim=D,
        queries=queries,
        keys=queries + more,
        where="near"
        if wide and mode == "gradient"
        else r.choice(("near", "some"))
        if wide
        else r.choice(("near", "far", "any", "some")),
        rows=r.random() < 0.4,
        dtype=r.choice(("float32", "float32", "float64", "bfloat16", "float16")),
        tables=r.choice(("float32", "float64")),
        mode=mode,
        backend=r.choice(("auto", "auto", "torch", "eager", "native")) if kind == "rotary" else "auto",
    )
    if options.get("phases") == "float32":
        case = replace(case, tables="float32", mode="both" if mode == "gradient" else mode)
    if mode == "gradient":
        case = replace(case, tables="float64", dtype="float64")
    if kind == "xpos" and case.dtype == "float16":  # which it refuses
        case = replace(case, dtype="bfloat16")
    return case


AREA = Area("rotation", "every rotation at positions up to 2^31, in place and into caches, and rerotate", draw)
