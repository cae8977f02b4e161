"""One predicate says what a mask means: in dense blocks, to FlexAttention and in what is cut out of a mask; and a
field is served everywhere once it is declared."""

import itertools
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from jaxtyping import Bool, Int
from torch import Tensor

import posenc
from posenc import Mask, NoPE, attention
from posenc.attend import ways
from posenc.attend.call import AttentionCall, Settings, check_mask
from posenc.attend.offers import WAYS
from posenc.attend.remapped import RemappedMask
from posenc.errors import InvalidArgument
from posenc.laws.effects import defined
from posenc.mask import PER_KEY, PER_QUERY
from posenc.positions import arange

CPU = torch.device("cpu")
B, H = 2, 2


def drawn(order: bool | None = None) -> tuple[Mask, int, int]:
    """Any mask, its queries and its keys; with an order, without one, or either."""
    T = random.choice((1, 3, 7))
    S = T + random.choice((0, 0, 3))
    maybe = lambda share: random.random() < share  # noqa: E731
    row = lambda low, high, n: torch.randint(low, high, random.choice(((n,), (1, n), (B, n))))  # noqa: E731
    given: dict[str, Any] = {"causal": maybe(0.6)}
    if order or (order is None and maybe(0.3)):
        given |= {"q_order": row(0, 9, T), "k_order": row(0, 9, S)}
    if maybe(0.4):
        given["window"] = random.randint(1, 5)
    if maybe(0.3):
        given["key_mask"] = torch.rand(random.choice((1, B)), S) > 0.3
    if maybe(0.3):
        given |= {"q_segments": row(0, 3, T) - 2 << 40, "k_segments": row(0, 3, S) - 2 << 40}
    if maybe(0.2):
        given["chunk"] = random.randint(1, 5)
    if maybe(0.3) and ("q_order" not in given or T == S):
        given["bidirectional_groups"] = row(-1, 2, S)
    if maybe(0.2):
        given["dense"] = torch.rand(random.choice((1, B)), random.choice((1, H)), T, S) > 0.3
    mask = Mask(**given)
    if maybe(0.3):
        ends = [row(0, 9, T) if maybe(0.7) else None for _ in range(2)]
        mask = mask.become(RemappedMask, k_positions=row(0, 9, S), q_from=ends[0], q_until=ends[1])
    return mask, T, S


def whole(mask: Mask, T: int, S: int) -> Tensor:
    visible = mask.visible(T, S, CPU)
    return (torch.ones(1, 1, 1, 1).bool() if visible is None else visible).expand(B, H, T, S)


def by_hand(mask: Mask, T: int, S: int) -> Tensor:
    """The mask (B, H, T, S) by loops over pairs, from the sentences of its documentation."""
    seen = torch.zeros(B, H, T, S, dtype=torch.bool)
    for b in range(B):
        given = {name: x.expand(B, -1)[b] for name, x in mask.tensors().items() if name != "dense"}
        order = given.get("q_order", arange(T, offset=S - T)).tolist(), given.get("k_order", arange(S)).tolist()
        padding = given.get("key_mask", torch.ones(S, dtype=torch.bool)).tolist()
        documents = (
            given.get("q_segments", torch.zeros(T)).tolist(),
            given.get("k_segments", torch.zeros(S)).tolist(),
        )
        groups = given.get("bidirectional_groups", torch.full((S,), -1)).tolist()
        starts: dict[float, int] = {}
        for j in range(S):
            if padding[j]:
                starts.setdefault(documents[1][j], j)
        for t, j in itertools.product(range(T), range(S)):
            ahead = order[1][j] - order[0][t]
            sees = (not mask.causal or ahead <= 0) and (mask.window is None or -mask.window < ahead < mask.window)
            sees = sees or (groups[S - T + t] >= 0 and groups[S - T + t] == groups[j])
            sees = sees and documents[0][t] == documents[1][j] and padding[j]
            if mask.chunk is not None and sees:
                start = starts[documents[1][j]] if mask.q_order is None else 0
                # Padding is of the first chunk.
                sees = max(0, order[0][t] - start) // mask.chunk == max(0, order[1][j] - start) // mask.chunk
            if "q_from" in given:
                sees = sees and bool(given["k_positions"][j] >= given["q_from"][t])
            if "q_until" in given:
                sees = sees and bool(given["k_positions"][j] < given["q_until"][t])
            seen[b, :, t, j] = sees
    return seen if mask.dense is None else seen & mask.dense


@pytest.mark.usefixtures("unchecked")
def test_everything_composes() -> None:
    """Whole, in blocks, as FlexAttention is told it, and in attention, on 35,000 pairs of a query and a key."""
    random.seed(0)
    compared = 0
    b, h, i, j = torch.meshgrid(*(torch.arange(n) for n in (B, H, 7, 10)), indexing="ij")
    while compared < 35_000:
        mask, T, S = drawn()
        want = by_hand(mask, T, S)
        assert torch.equal(whole(mask, T, S), want), mask
        first, (_, keys) = T // 2, mask.key_range(0, T, T, S)
        assert not want[..., keys:].any()
        assert not want[:, :, first:, : mask.key_range(first, T, T, S)[0]].any()
        block = mask.block(mask.known(T, S, CPU), first, T, keys, min(1, keys))
        if block is not None:
            assert torch.equal(block.expand(B, H, T - first, -1), want[:, :, first:, min(1, keys) : keys])
        sees = mask.modifier(T, S, CPU)
        if sees is not None:
            asked = [index[:, :, :T, :S] for index in (b, h, i, j)]
            assert torch.equal(sees(*asked).expand(B, H, T, S), want), mask
            one = [random.randrange(n) for n in (B, H, T, S)]
            assert bool(sees(*map(torch.tensor, one))) == want[tuple(one)], (mask, one)
        compared += want.numel()
        if mask.q_order is None and mask.causal and mask.key_mask is not None and not mask.key_mask[:, -1].all():
            continue  # refused: it would be the last query's own key
        q = torch.randn(B, H, T, 4, dtype=torch.float64)
        k, v = torch.randn(2, B, 1, S, 4, dtype=torch.float64)
        weights = (q @ k.mT / 2).masked_fill(~want, -torch.inf).softmax(-1).nan_to_num(0.0)
        got = attention(q, k, v, NoPE().at(arange(T, offset=S - T), arange(S)), mask)
        torch.testing.assert_close(got, weights @ v, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("unchecked")
def test_what_is_cut_out_of_a_mask_sees_as_it_did() -> None:
    random.seed(1)
    for _ in range(200):
        mask, T, S = drawn(order=True)
        if mask.bidirectional_groups is not None or mask.chunk is not None:
            continue  # groups are of the last keys, and are refused of others; chunks become segments beforehand
        first, start = random.randrange(T), random.randrange(S)
        last, keys = random.randint(first + 1, T), random.randint(start + 1, S)
        some = mask.cut(queries=slice(first, last), keys=slice(start, keys))
        check_mask(some, {"b": B, "h": H, "q": last - first, "k": keys - start}, CPU)
        want = whole(mask, T, S)[:, :, first:last, start:keys]
        assert torch.equal(whole(some, last - first, keys - start), want)
        assert torch.equal(whole(mask.cut(row=1), T, S)[1], whole(mask, T, S)[1])


@dataclass(frozen=True, eq=False)
class WithAwake(Mask):
    """A field more, in one line: queries that are false here see nothing."""

    awake: Bool[Tensor, "#B T"] | None = field(
        default=None, metadata={**PER_QUERY, "truth": "true at queries that see"}
    )


@pytest.mark.usefixtures("unchecked", "small_blocks")
@pytest.mark.parametrize("more", [{}, {"q_segments": torch.arange(80) // 40}, {"window": 7}])
def test_a_field_is_declared_in_one_place(more: dict[str, Any]) -> None:
    """It is checked, copied, cut into documents and blocks, sharded and handed to FlexAttention."""
    q, k, v = torch.randn(3, B, H, 80, 8, dtype=torch.float64)
    awake, at = torch.rand(B, 80) < 0.8, NoPE().at(arange(80))
    mask = WithAwake(causal=True, awake=awake, **more)
    hidden = Mask(causal=True, dense=awake[:, None, :, None].expand(-1, -1, -1, 80), **more)
    want = attention(q, k, v, at, hidden)
    assert not want[:, :, ~awake[0]][0].any()
    got = attention(q, k, v, at, mask), attention(q, k, v, at, mask, backend="blocks")
    torch.testing.assert_close(got, (want, want), rtol=0, atol=1e-12)
    sees = mask.modifier(80, 80, CPU)
    b, i, j = torch.meshgrid(*(torch.arange(n) for n in (B, 80, 80)), indexing="ij")
    assert torch.equal(sees(b, torch.tensor(0), i, j), whole(hidden, 80, 80)[:, 0])
    assert torch.equal(mask.cut(row=1, queries=slice(3, 9), keys=slice(0, 9)).awake, awake[1:, 3:9])
    awake.logical_not_()
    torch.testing.assert_close(attention(q, k, v, at, mask), want, rtol=0, atol=1e-12)
    for wrong, message in (
        (awake[:1, :3], r"awake has shape \(1, 3\); expected \(80,\) or .*: one per query"),
        (awake.long(), r"awake is torch.int64 .* expected bool \(B, T\), true at queries that see"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            attention(q, k, v, at, WithAwake(awake=wrong))


@dataclass(frozen=True, eq=False)
class Every(Mask):
    """A rule on places in the whole sequence, without a tensor: a query sees itself and every third key."""

    stride: int = 3

    def allows(self, at: dict[str, Tensor]) -> Tensor:
        return (at["k_order"] % self.stride == 0) | (at["k_order"] == at["q_order"])


@dataclass(frozen=True, eq=False)
class Below(Every):
    """The same, with a number per key."""

    level: Int[Tensor, "#B S"] | None = field(default=None, metadata=PER_KEY)

    def allows(self, at: dict[str, Tensor]) -> Tensor:
        return super().allows(at) & (at["level"] < 5)


SAID: dict[str, dict[str, Any]] = {
    "nothing": {},
    "causal": {"causal": True},
    "a window": {"causal": True, "window": 7},
    "both sides": {"window": 7},
    "documents": {"causal": True, "q_segments": torch.arange(40) // 14},
    "left padding": {"causal": True, "key_mask": torch.arange(40) >= torch.tensor([[9], [0]])},
    "chunks": {"causal": True, "chunk": 11},
    "a permuted order": {"causal": True, "q_order": torch.arange(40).flip(0)},
    "groups": {"causal": True, "bidirectional_groups": torch.arange(40) // 5 - 1},
}


@pytest.mark.usefixtures("unchecked", "small_blocks")
@pytest.mark.parametrize("name", ["nope", "alibi", "rotary", "self-extend(rotary, window=5, group=3)"])
@pytest.mark.parametrize("said", SAID)
def test_a_rule_of_ones_own_holds_on_every_way(said: str, name: str) -> None:
    """On each that attention takes by itself or is asked for, trained or not, in parts and in one piece."""
    encoding = posenc.encoding(name, heads=H, head_dim=8)
    if encoding.causal and said in ("nothing", "both sides", "groups"):
        return  # refused: it is defined for causal models only
    placed, step = encoding.at(arange(40)), encoding.at(arange(1, offset=39), arange(40))
    q, k, v = torch.randn(3, B, H, 40, 8, dtype=torch.float64)
    rotated = (q, k) if placed.remaps else placed.rotate(q, k)
    i = arange(40)
    far = (i % 3 == 0) | (i == i[:, None])
    level = torch.randint(0, 7, (B, 40))
    rules = {
        Every(**SAID[said]): far[None, None],
        Below(level=level, **SAID[said]): far & (level < 5)[:, None, None],
    }
    if said == "a permuted order":
        rules = {mask: rule.flip(-1, -2) for mask, rule in list(rules.items())[:1]}
    for mask, rule in rules.items():
        dense = whole(Mask(**SAID[said]), 40, 40) & rule
        want, lse = defined(*rotated, v, placed, Mask(**SAID[said], dense=dense))
        for backend in ("auto", *WAYS):
            for recorded in (False, True):
                call = partial(
                    attention,
                    rotated[0].clone().requires_grad_(recorded),
                    rotated[1],
                    v,
                    placed,
                    mask,
                    backend=backend,
                )
                try:
                    got = call(), call(return_logsumexp=True)[1]
                except InvalidArgument:
                    assert backend != "auto"
                    continue
                torch.testing.assert_close(got, (want, lse), rtol=0, atol=1e-12, msg=backend)
        if mask.q_order is None and mask.q_segments is None:
            rest = (rotated[0][:, :, 39:], rotated[1], v, step, mask)
            torch.testing.assert_close(attention(*rest), want[:, :, 39:], rtol=0, atol=1e-12)


def test_a_rule_is_part_of_what_a_mask_of_blocks_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two masks with the same fields and other rules share no block mask on a GPU."""

    class OfEvenKeys(Mask):
        def allows(self, at: dict[str, Tensor]) -> Tensor:
            return at["k_order"] % 2 == 0

    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(ways, "flexible", lambda *call: made.append(call[6]) or (call[0], None))
    q = torch.zeros(1, 2, 40, 16)
    for mask in (Mask(causal=True), OfEvenKeys(causal=True)):
        call = AttentionCall.of(q, q, NoPE().at(arange(40)), mask, 1.0, Settings(False, None, 0.0, "flex"))
        ways._by_flex(q, q, q, call)
    assert made[0] != made[1]


@pytest.mark.usefixtures("unchecked")
def test_a_tensor_that_does_not_say_along_what_is_refused() -> None:
    @dataclass(frozen=True, eq=False)
    class Levels(Mask):
        level: Tensor | None = None

    with pytest.raises(
        InvalidArgument, match=r"the field level of Levels holds a tensor.*metadata=posenc.mask.PER_"
    ):
        Levels(causal=True, level=torch.zeros(4).long())
    assert Levels(causal=True).by_offset


@dataclass(frozen=True, eq=False)
class Levels(Mask):
    """A rule with a number per query and key, by any function."""

    q_level: Int[Tensor, "#B T"] | None = field(default=None, metadata=PER_QUERY)
    k_level: Int[Tensor, "#B S"] | None = field(default=None, metadata=PER_KEY)
    rule: Any = None

    def allows(self, at: dict[str, Tensor]) -> Tensor | None:
        allowed: Tensor | None = self.rule(at)
        return allowed


@pytest.mark.usefixtures("unchecked")
def test_a_rule_that_returns_nothing_hides_nothing_but_what_mask_hides() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    forgotten, placed = Levels(causal=True, rule=lambda at: None), NoPE().at(arange(5))
    torch.testing.assert_close(
        attention(q, k, v, placed, forgotten), attention(q, k, v, placed, causal=True), rtol=0, atol=1e-6
    )


MISTAKEN: dict[str, tuple[Any, str]] = {
    "an integer": (
        lambda at: at["k_level"],
        r"Levels.allows\(\) returns torch.int64 \(1, 1, 1, 5\).*; return a boolean tensor, which is false for",
    ),
    "a number": (lambda at: 1.0, r"returns 1.0; return a boolean tensor"),
    "a tensor that is missing": (
        lambda at: at["q_level"] > 0,
        r"Levels.allows\(\) reads at\['q_level'\], but this mask has no such tensor; pass q_level=…",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mistake", MISTAKEN)
def test_a_rule_that_would_not_be_obeyed_is_refused(mistake: str) -> None:
    rule, message = MISTAKEN[mistake]
    q, placed = torch.randn(1, 2, 5, 8), NoPE().at(arange(5))
    with pytest.raises(InvalidArgument, match=message):
        attention(q, q, q, placed, Levels(causal=True, k_level=arange(5), rule=rule))


def test_a_rule_in_sees_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"Louder overrides sees\(\); override allows\(\)"):

        class Louder(Mask):
            def sees(self, at: dict[str, Tensor]) -> Tensor | None:  # type: ignore[misc]
                return None


@pytest.mark.usefixtures("unchecked")
def test_conditions_of_mask_are_computed_once_a_block_beside_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    sees, blocks = Mask.sees, []
    monkeypatch.setattr(Mask, "sees", lambda mask, at: blocks.append(type(mask)) or sees(mask, at))
    q, placed = torch.randn(1, 2, 300, 8), posenc.ALiBi(2).at(arange(300))
    attention(q, q, q, placed, Levels(causal=True, rule=lambda at: at["k_order"] % 2 == 0))
    assert blocks == [Levels] * 3
