"""Views of three ways of numbering words, which all fail, and of rotation, which works."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.pictures.numbers import fixed
from posenc.pictures.view import Axis, Line, Lines, View, counted
from posenc.teaching.views.bounds import Bounds, bounded

WIDTH = 16
MADE = f"""\
import torch, posenc

dog, man = torch.randn(2, {WIDTH}, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
"""


def words() -> Float[Tensor, "2 C"]:
    """Return two words, dog and man, as random vectors with a fixed seed."""
    return torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@bounded
def counting(
    way: Literal["number", "share", "bits"] = "number", length: Annotated[int, Bounds(3, 1000)] = 100
) -> View:
    """Show why a simple encoding of positions fails: the position itself, the position as a share of the text,
    or its binary digits.
    """
    return {"number": _numbers, "share": _shares, "bits": _bits}[way](length)


def _numbers(length: int) -> View:
    """Add the position to every channel; at far positions, the position dominates the word."""
    at = torch.arange(length, dtype=torch.float64)
    dog, man = (word + at[:, None] for word in words())
    angles = torch.cosine_similarity(dog, man, -1).acos().rad2deg()
    return View(
        f"At position {length - 1}{' the number drowns out the words:' if angles[-1] < 5 else ','} “dog” and “man” "
        f"are {angles[-1]:.2g}° apart",
        (
            Lines(
                "dog and man",
                (Line("angle", angles),),
                counted("position", length),
                "angle between dog and man (°)",
            ),
        ),
        {"degrees at the last position": float(angles[-1]), "at position 0": float(angles[0])},
        f"{MADE}p = torch.arange({length})[:, None]\n"
        "print(torch.cosine_similarity(dog + p, man + p, -1).acos().rad2deg())",
    )


def _shares(length: int) -> View:
    """Show positions scaled to the range from 0 to 1; the step between adjacent words depends on the length of the
    text.
    """
    texts, points = dict.fromkeys((11, length)), max(11, length)
    codes = [torch.linspace(0, 1, n, dtype=torch.float64) for n in texts]
    lines = (
        Line(f"{len(code)} words", torch.cat([code, code.new_full((points - len(code),), torch.nan)]))
        for code in codes
    )
    return View(
        f"One step means {codes[-1][1]:.3g} in {length} words{', but 0.1 in 11' if length != 11 else ''}",
        (Lines("share of the text", tuple(lines), counted("position", points), "encoding"),),
        {"one step here": float(codes[-1][1]), "in 11 words": 0.1},
        f"import torch\n\nprint(torch.linspace(0, 1, {length}, dtype=torch.float64)[1])",
    )


def _bits(length: int) -> View:
    """Show the distance between the encodings of adjacent positions. The distance varies between positions for
    binary digits, and is the same at all positions for sinusoidal encodings.
    """
    at = torch.arange(length + 1)
    digits = (at >> torch.arange(10)[:, None] & 1).double().T
    sines = posenc.Sinusoidal(WIDTH).table(at, dtype=torch.float64)
    lines = tuple(Line(n, code.diff(dim=0).norm(dim=-1)) for n, code in (("bits", digits), ("sines", sines)))
    most = int(digits.diff(dim=0).abs().sum(-1).max())
    return View(
        f"One step flips 1 to {most} bits; with sines, every step has length {lines[1].values[0]:.3f}",
        (Lines("step to the next position", lines, counted("position", length), "length of the step"),),
        {"most bits that flip": most, "a step of sines": float(lines[1].values[0])},
        f"import torch, posenc\n\nat, sines = torch.arange({length} + 1), posenc.Sinusoidal({WIDTH})\n"
        "code = sines.table(at, dtype=torch.float64)\nprint(code.diff(dim=0).norm(dim=-1))",
    )


@bounded
def scores(offset: Annotated[int, Bounds(0, 16)] = 2) -> View:
    """Show the score of two words ``offset`` apart at every position, with added sinusoidal encodings and with
    rotated vectors.
    """
    dog, man = words()
    at = torch.arange(64)
    table = posenc.Sinusoidal(WIDTH)
    q, k = (w + table.table(p, dtype=torch.float64) for w, p in ((dog, at), (man, at + offset)))
    rope = posenc.Rotary(WIDTH, pairing="half")
    turned = rope.at(at, at + offset, dtype=torch.float64).rotate(
        *(word.expand(1, 1, len(at), WIDTH) for word in (dog, man))
    )
    added, rotated = (q * k).sum(-1), (turned[0] * turned[1]).sum(-1)[0, 0]
    lines = (Line("sines added", added), Line("RoPE", rotated, "rotary"))
    return View(
        f"Rotated, words {offset} apart score {fixed(float(rotated[0]))} wherever they are",
        (Lines("score", lines, Axis("position of “dog”", tuple(map(float, range(64)))), "score q·k"),),
        {
            "spread with sines added": float(added.max() - added.min()),
            "spread of the score with RoPE": round(float(rotated.max() - rotated.min()), 9),
            "score with RoPE": float(rotated[0]),
        },
        f"{MADE}at, rope = torch.arange(64), posenc.Rotary({WIDTH}, pairing='half')\n"
        f"vectors = (word.expand(1, 1, 64, {WIDTH}) for word in (dog, man))\n"
        f"q, k = rope.at(at, at + {offset}, dtype=torch.float64).rotate(*vectors)\n"
        "print((q * k).sum(-1))",
    )
