"""The rooms' formulas in MathML, put together from a few small pieces so that they read like their source."""


def i(name: str) -> str:
    """A variable."""
    return f"<mi>{name}</mi>"


def n(value: str) -> str:
    """A number."""
    return f"<mn>{value}</mn>"


def o(sign: str) -> str:
    """An operator; brackets keep their size, since nothing in them is tall and some fonts overdo it."""
    return f'<mo stretchy="false">{sign}</mo>' if sign in "()|" else f"<mo>{sign}</mo>"


def row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def sub(base: str, below: str) -> str:
    return f"<msub>{base}{below}</msub>"


def sup(base: str, above: str) -> str:
    return f"<msup>{base}{above}</msup>"


def over(top: str, bottom: str) -> str:
    return f"<mfrac>{top}{bottom}</mfrac>"


THIN = '<mspace width="0.17em"/>'
RELATES = '<mo form="infix">=</mo>'
"""An equals sign that begins a part keeps its space on both sides."""


def call(function: str, *arguments: str) -> str:
    """f(a, b)."""
    return row(function, o("&#x2061;"), o("("), o(",").join(arguments), o(")"))


def formula(*lines: tuple[str, ...]) -> str:
    """MathML beside each other where there is space.

    A line is how it is read aloud where MathML is not, then its parts: it may be broken between them and nowhere
    else, as browsers never break MathML by themselves.
    """
    return f'<div class="formula">{"".join(_line(*line) for line in lines)}</div>'


def _line(words: str, *parts: str) -> str:
    texts = (words, *("" for _ in parts[1:]))
    shown = "".join(
        f'<math display="block" xmlns="http://www.w3.org/1998/Math/MathML" alttext="{text}">{part}</math>'
        for text, part in zip(texts, parts, strict=True)
    )
    return f'<div class="line">{shown}</div>'


def _t(matrix: str) -> str:
    return sup(matrix, o("⊤"))


def _rotation(angle: str) -> str:
    return call(i("R"), angle)


THETA = sub(i("θ"), i("i"))

EQUIVARIANCE = formula(
    (
        "f of P X equals P times f of X",
        row(call(i("f"), row(i("P"), i("X"))), o("="), i("P"), call(i("f"), i("X"))),
    ),
)

SINUSOIDS = formula(
    (
        "PE of p, 2i is sine of p theta i",
        row(
            sub(i("PE"), row(i("p"), o(","), n("2"), i("i"))),
            o("="),
            i("sin"),
            THIN,
            row(i("p"), THETA),
        ),
    ),
    (
        "PE of p, 2i plus 1 is cosine of p theta i",
        row(
            sub(i("PE"), row(i("p"), o(","), n("2"), i("i"), o("+"), n("1"))),
            o("="),
            i("cos"),
            THIN,
            row(i("p"), THETA),
        ),
    ),
    (
        "theta i is base to the minus 2i over d",
        row(THETA, o("="), sup(i("b"), row(o("−"), n("2"), i("i"), o("/"), i("d")))),
    ),
)

TABLE = formula(
    (
        "h at p equals x at p plus W at p",
        row(sub(i("h"), i("p")), o("="), sub(i("x"), i("p")), o("+"), sub(i("W"), i("p"))),
    ),
    ("for p from 0 to N minus 1", row(n("0"), o("≤"), i("p"), o("&lt;"), i("N"))),
)

ROTATION = formula(
    (
        "R of m theta times q, transposed, times R of n theta times k is q transposed R of n minus m theta k",
        row(
            _t(row(o("("), _rotation(row(i("m"), i("θ"))), i("q"), o(")"))),
            row(o("("), _rotation(row(i("n"), i("θ"))), i("k"), o(")")),
        ),
        row(
            RELATES,
            _t(i("q")),
            _rotation(row(o("("), i("n"), o("−"), i("m"), o(")"), i("θ"))),
            i("k"),
        ),
    ),
)

BIAS = formula(
    (
        "score of i and j is q i times k j over root d, minus slope m h times the distance of i and j",
        row(
            sub(i("score"), row(i("i"), i("j"))),
            o("="),
            over(row(_t(sub(i("q"), i("i"))), sub(i("k"), i("j"))), f"<msqrt>{i('d')}</msqrt>"),
            o("−"),
            sub(i("m"), i("h")),
            row(o("|"), i("i"), o("−"), i("j"), o("|")),
        ),
    ),
    (
        "m h is 2 to the minus 8 h over H",
        row(sub(i("m"), i("h")), o("="), sup(n("2"), row(o("−"), n("8"), i("h"), o("/"), i("H")))),
    ),
)

EXTENSION = formula(
    ("PI: theta i over s", row(i("PI:&#x2002;"), over(THETA, i("s")))),
    (
        "NTK: base times s to the d over d minus 2",
        row(
            i("NTK:&#x2002;"),
            sup(i("b"), o("′")),
            o("="),
            i("b"),
            sup(i("s"), row(i("d"), o("/"), o("("), i("d"), o("−"), n("2"), o(")"))),
        ),
    ),
    (
        "YaRN: g i theta i plus one minus g i times theta i over s",
        row(
            i("YaRN:&#x2002;"),
            sub(i("g"), i("i")),
            THETA,
            o("+"),
            o("("),
            n("1"),
            o("−"),
            sub(i("g"), i("i")),
            o(")"),
            over(THETA, i("s")),
        ),
    ),
)

HOLDS = formula(
    (
        "an encoding holds when perplexity at the longest length is at most 1.05 times that at the trained length",
        row(over(call(i("ppl"), i("L")), call(i("ppl"), sub(i("L"), i("train")))), o("≤"), n("1.05")),
    ),
)
