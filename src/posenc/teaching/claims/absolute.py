"""Claims about learned tables: the last row, and rows that were never trained."""

import torch

import posenc
from posenc.errors import PositionOutOfRange
from posenc.positions import arange
from posenc.teaching.claims.claim import Evidence, Finding, Verdict, above, below, claim, refusal, same
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer

GEHRING = "Gehring et al. 2017, section 3.1; Devlin et al. 2019"


LARGE = ("inkling", "transformer-xl", "deberta", "window")
"""The encodings with many parameters: in linear maps as wide as the model, in tables of vectors, or in tables of
all offsets in a window.
"""


@claim(
    statement="A table of 512 rows works up to length 511.",
    precise="The table works up to length 512, at positions 0 to 511. Lengths 513 and 600 raise an error. A table "
    "of 1024 rows raises an error at position 1024.",
    verdict=Verdict.FAILS,
    source=GEHRING,
)
def where_a_table_ends() -> Evidence:
    table, larger = posenc.Learned(512, 8), posenc.Learned(1024, 8)
    return (
        *(same(f"length {n} is refused", bool(refusal(table.at, arange(n))), n > 512) for n in (512, 513, 600)),
        same("position 1024 is refused by a table of 1024 rows", bool(refusal(larger.at, arange(1025))), True),
        same("the error is an IndexError", issubclass(PositionOutOfRange, IndexError), True),
    )


@claim(
    statement="Past the end of a learned table, embeddings are random.",
    precise="Past the last row, the table raises an error or, with clamping, repeats the last row. Rows inside the "
    "table but past the trained length never received a gradient.",
    verdict=Verdict.WHEN,
    source=GEHRING,
)
def two_ways_past_the_end() -> Evidence:
    table = posenc.Learned(64, 32)
    model = Transformer(Model(width=32, layers=1), table, 16).initialise(0)
    model(torch.arange(16)[None]).square().mean().backward()
    assert table.weight.grad is not None
    last, far = posenc.Learned(64, 32, past_end="clamp").table(torch.tensor([63, 5000]))
    return (
        above("gradient of trained rows", float(table.weight.grad[:16].abs().amax(1).min()), 1e-12),
        below("gradient of rows past the trained length", float(table.weight.grad[16:].abs().max()), 0.0),
        same("position 64 is refused by a table of 64 rows", bool(refusal(table.at, torch.arange(65))), True),
        same("clamping repeats the last row", torch.equal(last, far), True),
    )


@claim(
    statement="A learned table has parameters; a sinusoidal encoding has none.",
    precise="A 512 × 768 table has 393 216 parameters. Of the other encodings, only Inkling, Transformer-XL, "
    "DeBERTa, learned grids and window tables have at least a tenth as many. Sinusoidal encoding, RoPE, ALiBi and "
    "NoPE have none.",
    verdict=Verdict.HOLDS,
    source=GEHRING,
)
def parameters() -> Evidence:
    def counted(name: str) -> Finding:
        encoding = posenc.encoding(name, width=768, heads=12, head_dim=64, num_positions=512)
        count = sum(p.numel() for p in encoding.parameters())
        if isinstance(encoding, posenc.Learned | posenc.LearnedGrid):
            return same(name, count, 393_216 * encoding.axes)  # one table per axis
        if name in ("nope", "sinusoidal", "rotary", "alibi"):
            return same(name, count, 0)
        return (above if name in LARGE else below)(name, count, 39_321)

    return tuple(map(counted, posenc.CATALOGUE))


@claim(
    statement="Positional encodings are added to the token embeddings, not concatenated.",
    precise="Tested inputs keep their shapes: (2, 128, 128) with learned positions, (1, 1, 8, 64) with rotation. "
    "Sinusoidal tables have the shape (positions, channels), here (128, 512) and (512, 128).",
    verdict=Verdict.HOLDS,
    source="Vaswani et al. 2017, section 3.5",
)
def shapes_stay() -> Evidence:
    at = arange(128)
    x = torch.zeros(2, 128, 128)
    q, k = torch.zeros(2, 1, 1, 8, 64)
    rotated, _ = posenc.Rotary(64, pairing="half").at(arange(8)).rotate(q, k)
    checks = {
        "sinusoidal (128, 512)": posenc.Sinusoidal(512).table(at).shape == (128, 512),
        "sinusoidal (512, 128)": posenc.Sinusoidal(128).table(torch.arange(512)).shape == (512, 128),
        "learned (2, 128, 128)": posenc.Learned(512, 128).at(at).embed(x).shape == x.shape,
        "rotary (1, 1, 8, 64)": rotated.shape == q.shape,
    }
    return tuple(same(f"{name} keeps its shape", ok, True) for name, ok in checks.items())
