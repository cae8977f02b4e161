"""posenc against the stored numbers, and the stored numbers against their maker."""

import json

import pytest
import torch

from golden import make
from posenc import ALiBi, Rotary, Sinusoidal, attention
from posenc.clock import Clock, turn_words
from posenc.encodings.alibi import slopes
from posenc.positions import plain
from posenc.schedules import Default

GOLDEN = json.loads(make.PATH.read_text())


def close(got: torch.Tensor, want: list[float], bound: float) -> None:
    assert (got.double() - torch.tensor(want, dtype=torch.float64)).abs().max().item() <= bound


def test_the_stored_numbers_are_what_the_maker_makes() -> None:
    assert json.loads(json.dumps(make.numbers())) == GOLDEN


@pytest.mark.parametrize("row", GOLDEN["clock"], ids=lambda row: f"{row['base']}-{row['position']}")
def test_clock(row: dict) -> None:
    """Half a unit of float32 at 1; in float64 the fraction's rounding at 2^31."""
    clock = Clock(Default().spectrum(128, row["base"]))
    for dtype, bound in ((torch.float32, 3e-8), (torch.float64, 4e-10)):
        cos, sin = clock(torch.tensor([row["position"]]), dtype)
        close(cos[0, list(make.PAIRS)], row["cos"], bound)
        close(sin[0, list(make.PAIRS)], row["sin"], bound)


@pytest.mark.parametrize("base", GOLDEN["turns"])
def test_turns(base: str) -> None:
    words = turn_words(Default().spectrum(128, float(base)).frequencies)[list(make.PAIRS)]
    assert [f"{word % 2**64:016x}" for word in words.tolist()] == GOLDEN["turns"][base]


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
    y = attention(q, k, v, ALiBi(4).at(torch.tensor([5]), plain(8)))
    close(y[0, 0, 0], GOLDEN["alibi_attention"], 1e-15)
