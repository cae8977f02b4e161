"""Mutated texts: each is an encoding that prints itself back, or is refused in one sentence; nothing hangs."""

import re
from pathlib import Path
from random import Random

import pytest
import torch
from tools.campaign.text import draw

import posenc
from posenc.encodings.catalogue import canonical_text
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument
from support.checking import annotations_unchecked


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_texts(count: int) -> None:
    random = Random(29)
    with annotations_unchecked():
        for _ in range(count):
            draw(random).judge()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("window(size=1)", r"size is 1; expected Sequence\[int\]$"),
        ("layoutlm(buckets=1)", r"buckets is 1; expected Sequence\[int\]$"),
        ("cope(std=-0.5)", "std=-0.5 must be between 0 and 1e30, so that entries are finite"),
        ("inkling(clip='a')", "clip='a' must be a number"),
        ("sinusoidal-grid(axes=0.5)", "axes is 0.5; expected AxisMap or None$"),
        ("rotary(axes=3)", "axes is 3; expected AxisMap or None$"),
        (
            "rotary(axes=axial(2, 2, unis=(1, 2)))",
            "unknown argument of axial 'unis'; did you mean 'units'",
        ),
        ("fox(bias=1e308)", r"cannot create an encoding with width=32, heads=4, bias=1e\+308"),
        ("alibi(heads=99999999999999999999)", "heads=99999999999999999999 must be at most 65536"),
        (f"rotary(scaling=yarn(4, {10**400}))", "more than 308 digits is not allowed"),
        ("learned(num_positions=16777216, width=65536)", "creates 1099511627776 parameters; use a smaller value"),
        ("layers(rotary*99999999)", "the pattern has 99999999 layers; it must have at most 4096"),
        ("local(rotary, window=3)", r"only in layers\(…\); write layers\(local\(rotary, window=3\)\)"),
        ("layers(local(rotary, window=0))", "window=0 is invalid; write window= or chunk="),
        ("layers(local(rotary, wide=3))", "wide=3 is invalid; write window= or chunk="),
        ("layers(local(rotary))", "the arguments of local must be an encoding and window= or chunk="),
        ("layers(local(rotary, **x))", "local takes|is none of|not allowed|not a value"),
    ],
)
def test_what_python_would_say_is_one_sentence(text: str, sentence: str) -> None:
    with annotations_unchecked(), pytest.raises(InvalidArgument, match=sentence):
        posenc.encoding(text, width=32, heads=4, head_dim=8, num_positions=64)


def test_gemma_3_is_one_line() -> None:
    text = "layers(local(rotary, window=1024)*5 + rotary(base=1000000))"
    layers = posenc.encoding(text, head_dim=8, layers=12)
    placed = layers.at(posenc.positions.arange(4))
    assert [placed[i].window for i in range(12)] == ([1024] * 5 + [None]) * 2
    assert [layers.layer(i).base for i in (4, 5)] == [10_000, 1_000_000]
    assert str(parse(text)) == canonical_text(text) == text
    assert layers.describe().startswith("layers 0–4: rotary: ")


def test_llama_4_is_one_line() -> None:
    layers = posenc.encoding("layers(local(rotary(base=500000), chunk=8192)*3 + nope)", head_dim=8, layers=4)
    placed = layers.at(posenc.positions.arange(4))
    assert [placed[i].chunk for i in range(4)] == [8192, 8192, 8192, None]


def test_the_eleventh_setting_is_the_eleventh() -> None:
    rotary = posenc.encoding("rotary(axes=chunked(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))", head_dim=132)
    assert str(rotary.axis_map) == "chunked(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)"


def test_texts_of_the_zoo_are_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "encodings" / "layers.md").read_text(encoding="utf-8")
    texts = re.findall(r"\| `([a-z][^`]*\))` \|", page)
    built = {text: posenc.encoding(text, width=256, heads=8, head_dim=64, layers=8) for text in texts}
    p_rope = built["rotary(scaling=proportional(0.75))"].clock.frequencies.exact
    assert [theta > 0 for theta in p_rope] == [True] * 24 + [False] * 8
    assert min(built["rotary(base=100, rotary_dim=32)"].clock.frequencies.exact) > 0.01
    swan = next(encoding for text, encoding in built.items() if "inkling" in text).at(torch.arange(20_000)[-2:])
    assert [swan[i].window for i in range(4)] == [None, 512, 512, 512]
    assert bool((swan[0].scale > 1).all())
