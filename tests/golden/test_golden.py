"""posenc against the stored numbers, and the stored numbers against their maker."""

import json
import math
from collections.abc import Sequence

import pytest
import torch

from golden import make
from posenc import (
    FIRE,
    T5,
    ALiBi,
    CoPE,
    DeBERTa,
    Encoding,
    Inkling,
    Kerple,
    PoPE,
    QueryScale,
    Rotary,
    Sandwich,
    Shaw,
    Sinusoidal,
    TransformerXL,
    XPos,
    attention,
    scores,
)
from posenc.clock import Clock, turn_words
from posenc.encodings.alibi import slopes
from posenc.encodings.fox import ForgetBias
from posenc.positions import arange
from posenc.scaling import Default
from support import golden

GOLDEN = json.loads(make.PATH.read_text())


def close(got: torch.Tensor, want: list[float], bound: float) -> None:
    assert (got.double() - torch.tensor(want, dtype=torch.float64)).abs().max().item() <= bound


def test_the_stored_numbers_are_what_the_maker_makes() -> None:
    assert json.loads(json.dumps(make.numbers())) == GOLDEN


@pytest.mark.parametrize("row", GOLDEN["clock"], ids=lambda row: f"{row['base']}-{row['position']}")
def test_clock(row: dict) -> None:
    """Half a unit of float32 at 1; in float64 the fraction's rounding at 2^31."""
    clock = Clock(Default().frequencies(128, row["base"]))
    for dtype, bound in ((torch.float32, 3e-8), (torch.float64, 4e-10)):
        cos, sin = clock(torch.tensor([row["position"]]), dtype)
        close(cos[0, list(make.PAIRS)], row["cos"], bound)
        close(sin[0, list(make.PAIRS)], row["sin"], bound)


@pytest.mark.parametrize("base", GOLDEN["turns"])
def test_turns(base: str) -> None:
    words = turn_words(Default().frequencies(128, float(base)).exact)
    assert [f"{words[pair] % 2**64:016x}" for pair in make.PAIRS] == GOLDEN["turns"][base]


@pytest.mark.parametrize("row", GOLDEN["rotations"], ids=lambda row: f"{row['pairing']}-{row['position']}")
def test_rotation(row: dict) -> None:
    x = torch.tensor(make.VECTOR, dtype=torch.float64).view(1, 1, 1, 8)
    rotary = Rotary(8, pairing=row["pairing"])
    at = torch.tensor([row["position"]])
    close(rotary.at(at, dtype=torch.float64).rotate(x, x)[0].view(-1), row["turned"], 1e-12)
    close(rotary.at(at).rotate(x.float(), x.float())[0].view(-1), row["turned"], 4 * 2.0**-24 * 2.25)


@pytest.mark.parametrize(
    "row", GOLDEN["sinusoids"], ids=lambda row: f"{row['width']}-{row['spacing']}-{row['position']}"
)
def test_sinusoids(row: dict) -> None:
    order = "block" if row["spacing"] == "tensor2tensor" else "interleaved"
    table = Sinusoidal(row["width"], order=order, spacing=row["spacing"])
    close(table.table(torch.tensor([row["position"]]), torch.float64)[0], row["row"], 1e-12)


@pytest.mark.parametrize("heads", GOLDEN["slopes"])
def test_slopes(heads: str) -> None:
    assert slopes(int(heads)) == pytest.approx(GOLDEN["slopes"][heads], rel=1e-15)


def test_alibi_attention() -> None:
    q = torch.full((1, 4, 1, 1), 0.5, dtype=torch.float64)
    k = torch.tensor(make.VECTOR, dtype=torch.float64).view(1, 1, 8, 1).expand(1, 4, 8, 1)
    v = torch.eye(8, dtype=torch.float64).expand(1, 4, 8, 8)
    y = attention(q, k, v, ALiBi(4).at(torch.tensor([5]), arange(8)))
    close(y[0, 0, 0], GOLDEN["alibi_attention"], 1e-15)


@pytest.mark.parametrize("row", GOLDEN["t5"], ids=lambda row: f"{row['buckets']}-{row['two_sided']}")
def test_t5_buckets(row: dict) -> None:
    made = T5(1, buckets=row["buckets"], max_distance=row["max_distance"], two_sided=row["two_sided"])
    assert made.firsts.tolist()[-len(row["firsts"]) :] == row["firsts"]


@pytest.mark.parametrize("row", GOLDEN["deberta"], ids=lambda row: str(row["buckets"]))
def test_deberta_buckets(row: dict) -> None:
    made = DeBERTa(1, 1, buckets=row["buckets"], max_distance=row["max_distance"])
    assert made.bucket(-torch.tensor(golden.DISTANCES)).tolist() == row["rows"]


def of_offsets(encoding: Encoding, head: int = 0) -> torch.Tensor:
    """The bias of one query at the distances of the golden numbers, in float64."""
    far = torch.tensor([golden.DISTANCES[-1]])
    bias = encoding.double().at(far, far - torch.tensor(golden.DISTANCES), dtype=torch.float64).bias
    return bias.rows(0, 1, len(golden.DISTANCES))[0, head, 0]


def test_kerple() -> None:
    for kernel, size, growth in (("log", 1.5, 0.5), ("power", 0.5, 0.5)):
        made = Kerple(1, kernel=kernel).double()  # type: ignore[arg-type]
        with torch.no_grad():
            made.size.fill_(math.log(size))
            made.growth.fill_(math.log(growth) if kernel == "log" else math.log(growth / (2 - growth)))
        close(of_offsets(made), GOLDEN["kerple"][kernel], 1e-12 * 128)


def test_sandwich() -> None:
    close(of_offsets(Sandwich(8, channels=64, first=1), head=7), GOLDEN["sandwich"], 1e-12)


def test_fox() -> None:
    gates = torch.tensor(golden.GATES, dtype=torch.float64).log()[None, None]
    order = arange(len(golden.GATES))
    bias = ForgetBias(gates).ordered(order, order)
    close(bias.rows(len(order) - 1, len(order), len(order))[0, 0, 0], GOLDEN["fox"], 1e-15)


@pytest.mark.parametrize("name", ["pope", "xpos"])
def test_rotations_without_their_scale(name: str) -> None:
    """The last query sees keys at the distances; xPos' authors turn neighbours."""
    made = PoPE(4, 1) if name == "pope" else XPos(4, pairing="interleaved", scale_base=512)
    q, k = (torch.tensor(x, dtype=torch.float64).view(1, 1, 1, 4) for x in (golden.QUERY, golden.KEY))
    distances = [distance for distance in golden.DISTANCES if distance < made.position_limit]
    assert len(distances) >= 3
    for distance, want in zip(distances, GOLDEN[name][: len(distances)], strict=True):
        placed = made.double().at(torch.tensor([distance]), torch.tensor([0]), dtype=torch.float64)
        got = scores(*placed.rotate(q, k), placed, scale=1.0)
        close(got.view(-1), [want], 1e-12)


def test_cope() -> None:
    made = CoPE(1, 1, positions=4).double()
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[0.0], [10.0], [20.0], [30.0]]))
    q, k = torch.ones(1, 1, 5, 1, dtype=torch.float64), torch.full((1, 1, 5, 1), 1 / 3, dtype=torch.float64)
    found = scores(q, k, made.at(arange(5), dtype=torch.float64), causal=True, scale=1.0)[0, 0, 4] - 1 / 3
    close(found, GOLDEN["cope"], 1e-13)


def token(numbers: Sequence[float]) -> torch.Tensor:
    """A query or a key of one head."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, 1, -1)


def test_fire() -> None:
    """With a network of one unit that hands on what it reads."""
    made = FIRE(1, units=1).double()
    own = (made.c, made.inner, made.inner_bias, made.outer, made.outer_bias)
    with torch.no_grad():
        for parameter, value in zip(own, (0.1, 1, 0, 1, 0), strict=True):
            parameter.fill_(value)
    for (position, distance), want in zip(golden.ROWS, GOLDEN["fire"], strict=True):
        bias = made.at(torch.tensor([position]), torch.tensor([position - distance]), dtype=torch.float64).bias
        close(bias.rows(0, 1, 1)[0, 0, 0], [want], 1e-15)


def test_shaw() -> None:
    made = Shaw(4, 1, behind=1, ahead=1).double()
    with torch.no_grad():
        made.weight.copy_(torch.tensor(golden.TABLE))
    at = torch.tensor([100])
    placed = made.at(at, at + torch.tensor(golden.OFFSETS), dtype=torch.float64)
    k = torch.zeros(1, 1, len(golden.OFFSETS), 4, dtype=torch.float64)
    close(scores(token(golden.QUERY), k, placed, scale=1.0)[0, 0, 0], GOLDEN["shaw"], 1e-15)


def test_inkling() -> None:
    made = Inkling(4, 1, extent=4, basis=2, log_floor=128_000).double()
    with torch.no_grad():
        made.weight.copy_(torch.tensor(golden.TABLE[:2]))
        made.curves.copy_(torch.tensor([[1 / (n + 1), n / 2] for n in range(4)], dtype=torch.float64).T)
    at = torch.tensor([golden.LATE])
    placed, _ = made.at(at, at - torch.arange(5), dtype=torch.float64).with_content(token(golden.QUERY)[0])
    q, k = token([0.0]), torch.zeros(1, 1, 5, 1, dtype=torch.float64)
    close(scores(q, k, placed, scale=1.0)[0, 0, 0], GOLDEN["inkling"], 1e-14)


def test_transformer_xl() -> None:
    """By differences of two positions, and looked up where they count up by one."""
    made = TransformerXL(4, 1, 2).double()
    with torch.no_grad():
        made.weight.copy_(torch.tensor(golden.TABLE[1:]))
        made.u.copy_(torch.tensor(golden.TABLE[:1])[:, :2])
        made.v.copy_(torch.tensor(golden.TABLE[1:2])[:, :2])
    q, k = token(golden.QUERY[:2]), token(golden.KEY[:2])
    qk = (q * k).sum()
    for distance, want in zip(golden.DISTANCES, GOLDEN["transformer_xl"], strict=True):
        placed = made.at(torch.tensor([distance]), torch.tensor([0]), dtype=torch.float64)
        close((scores(q, k, placed, scale=1.0) - qk).view(-1), [want], 1e-12)
    placed = made.at(torch.tensor([100]), arange(101), dtype=torch.float64)
    row = (scores(q, k.expand(1, 1, 101, 2), placed, scale=1.0) - qk)[0, 0, 0]
    close(row[[100 - n for n in golden.DISTANCES[:4]]], GOLDEN["transformer_xl"][:4], 1e-12)


@pytest.mark.parametrize(("rule", "floor"), [("llama4", 8192), ("ministral3", 8192), ("beam", 2048)])
def test_query_scales(rule: str, floor: int) -> None:
    made = QueryScale(rule=rule, floor=floor)  # type: ignore[arg-type]
    close(made.factors(torch.tensor([10**6]), torch.float64), [GOLDEN["query_scales"][rule]], 1e-14)
