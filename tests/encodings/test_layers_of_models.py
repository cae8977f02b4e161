"""Layers as models have them: Llama 4, bases and scalings by layer."""

import pytest
import torch

import posenc
from posenc import NoPE, Rotary
from posenc.encodings.text import parse
from posenc.positions import arange
from posenc.scaling import Linear


def rotates(placed: posenc.Placed) -> bool:
    q = torch.ones(1, 1, 2, 8)
    return not torch.equal(placed.rotate(q, q)[0], q)


def test_llama4_scales_queries_where_it_does_not_rotate() -> None:
    layers = posenc.encoding("layers(rotary*3 + stack(nope, query-scale))", head_dim=8, layers=8)
    placed = layers.at(arange(2, offset=8190))
    assert [rotates(placed[i]) for i in range(8)] == [True, True, True, False] * 2
    assert [placed[i].scale is None for i in range(8)] == [True, True, True, False] * 2
    assert placed[3].scale.flatten().tolist() == pytest.approx([1.0, 1.0693147], abs=6e-8)
    assert layers.describe().splitlines()[1] == (
        "layer 3: stack(nope, query-scale): nope + query-scale: rule='llama4', amount=0.1, floor=8192"
    )


def test_bases_schedules_and_shares_of_a_head_by_layer() -> None:
    """What configs say by layer type is one text: a near base, a far one scaled, part of a head, nothing."""
    text = "layers(rotary(base=10000)*2 + rotary(base=1000000, scaling=linear(8)) + rotary(rotary_dim=4) + nope)"
    layers, at = posenc.encoding(text, head_dim=8, layers=10), arange(7, offset=90)
    kinds = [
        Rotary(8, pairing="half", base=1e4),
        Rotary(8, pairing="half", base=1e4),
        Rotary(8, pairing="half", base=1e6, scaling=Linear(8.0)),
        Rotary(8, pairing="half", rotary_dim=4),
        NoPE(),
    ]
    placed, (q, k) = layers.at(at), torch.randn(2, 1, 2, 7, 8)
    for i in range(10):
        want = kinds[i % 5].at(at).rotate(q, k)
        assert all(torch.equal(*pair) for pair in zip(placed[i].rotate(q, k), want, strict=True))
    assert posenc.encoding(str(parse(text)), head_dim=8, layers=10).describe() == layers.describe()
    still = layers.with_scaling(None)  # DroPE: trained with rotation, and read on without
    assert {still.layer(i).name for i in range(10)} == {"nope"}
