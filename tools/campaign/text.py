"""Cases of mutated strings, each of which must be a valid encoding or be refused in one sentence, quickly."""

import re
from random import Random

from tools.campaign.core import Area, Case

import posenc
from posenc.encodings.catalogue import canonical_text
from posenc.errors import PosencError
from posenc.laws.law import owed

SEEDS = (
    *posenc.CATALOGUE,
    "rotary(base=500000, rotary_dim=4)",
    "rotary(scaling=yarn(4, 512))",
    "rotary(scaling=llama3(8, 8192))",
    "rotary(axes=chunked(2, 1, 1), signed=True)",
    "rotary(axes=axial(2, 2, units=('1/14', '1/14')), pairing=interleaved)",
    "t5(two_sided=True, shared=False, buckets=8, max_distance=12)",
    "kerple(kernel=power, shared=True)",
    "inkling(extent=4, basis=2, log_floor=3, clip=0.5)",
    "window(size=(7, 7), std=0.1)",
    "layoutlm(buckets=(8, 8, 8), max_distance=(9, 9, 9))",
    "channel-rotary(layout=hunyuan-vl, signed=True)",
    "query-scale(floor=5, rule=beam)",
    "learned-grid(columns=9, tables=sum, resize=timm)",
    "stack(rotary, fox(bias=1))",
    "alibi(slopes=(0.25, 0.125, 0, 0))",
    "layers(rotary*3 + nope)",
    "layers(stack(rotary, shaw(ahead=0, behind=6)) + cope(positions=4))",
)
SIGNS = ("(", ")", "*", "+", ",", "=", "'", '"', "-", ":", ".", "[", "]", "{", "}", " ", "\n", "\0", "%", "**", "#")
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "0.5",
    "-0.5",
    "1e308",
    "1e-320",
    "nan",
    "inf",
    "99999999999999999999",
    "9" * 400,
)
WORDS = (
    *(
        "None",
        "True",
        "False",
        "true",
        "rotary",
        "alibi",
        "stack",
        "heads",
        "layers",
        "yarn(4, 512)",
        "size",
        "base",
    ),
    *(
        "chunked(2, 2)",
        "heads=4",
        "std",
        "buckets",
        "axes",
        "scaling",
        "lambda",
        "__import__('os')",
        "é",
        "𝟙",
        "x:Y",
    ),
    *(
        "()",
        "(1,)",
        "(0, 0)",
        "'a'",
        "''",
        "b'a'",
        "1j",
        "...",
        "*0",
        "*2",
        "*-1",
        "*99999999",
        "+ nope",
        "not",
        "if",
    ),
)
PIECES = (*SIGNS, *NUMBERS, *WORDS)
WHOLE = re.compile(r"(\d)\.0\b")
"""A pattern of a whole number written as a float, as in fields of scalings."""


class TextCase(Case):
    """A string, for a model with a given number of layers or with an unspecified one."""

    def judge(self) -> None:
        facts = {"width": 32, "heads": 4, "head_dim": 8, "num_positions": 64, "layers": self.layers}
        try:
            encoding = posenc.encoding(self.text, **facts)
        except PosencError as refusal:
            message = str(refusal)
            whole = len(message) >= 20 and "\n" not in message.strip().replace(self.text, "")
            owed(whole, f"the message is too short or has more than one line: {message!r}")
            return
        again = canonical_text(self.text)
        owed(canonical_text(again) == again, f"canonical text {again!r} becomes {canonical_text(again)!r}")
        other = posenc.encoding(again, **facts)
        lines = [WHOLE.sub(r"\1", x.describe()) for x in (encoding, other)]
        owed(lines[0] == lines[1], f"{again!r} describes itself as {lines[1]!r}; the text as {lines[0]!r}")
        shapes = [[tuple(p.shape) for p in x.parameters()] for x in (encoding, other)]
        owed(shapes[0] == shapes[1], f"{again!r} builds parameters of other shapes")


def mutated(r: Random, text: str) -> str:
    """Return the string with a piece inserted, deleted, repeated, moved or replaced."""
    at, to = sorted(r.randrange(len(text) + 1) for _ in range(2))
    other = r.choice(SEEDS)
    return r.choice(
        (
            text[:at] + r.choice(PIECES) + text[at:],
            text[:at] + r.choice(PIECES) + text[to:] if to - at < 9 else text[:at] + text[at + 1 :],
            text[:at] + text[at + 1 :],
            text[:to] + text[at:to] + text[to:],
            text[:at] + other + text[to:],
            f"stack({text}, {other})",
            f"layers({text} + {other})",
            text.replace(r.choice("0123456789"), r.choice(NUMBERS)),
        )
    )


def draw(r: Random) -> TextCase:
    """Draw a valid string, mutated up to four times."""
    text = r.choice(SEEDS)
    for _ in range(r.randrange(5)):
        text = mutated(r, text)[:2000]
    return TextCase(text=text, layers=r.choice((None, None, 3)))


AREA = Area("text", draw)
