"""Layers as models have them: SmolLM3, Gemma 3, Llama 4; and what a layer's description says."""

import pytest
import torch

import posenc
from posenc import Layers, Mask, NoPE, Rotary, attention
from posenc.encodings.text import parse
from posenc.positions import arange
from posenc.scaling import Linear
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Cache, Transformer


def rotates(placed: posenc.Placed) -> bool:
    q = torch.ones(1, 1, 2, 8)
    return not torch.equal(placed.rotate(q, q)[0], q)


def test_smollm3_leaves_every_fourth_layer_without_positions() -> None:
    layers = posenc.encoding("layers(rotary(base=5000000)*3 + nope)", head_dim=8, layers=36)
    placed = layers.at(arange(2))
    assert [i for i in range(36) if not rotates(placed[i])] == list(range(3, 36, 4))
    lines = layers.describe().splitlines()
    assert len(lines) == 18
    assert lines[0].startswith("layers 0–2: rotary: head_dim=8, pairing='half', base=5000000")
    assert lines[1] == "layer 3: nope"
    assert lines[-1] == "layer 35: nope"


def gemma3() -> Layers:
    local, full = (Rotary(8, pairing="half", base=base) for base in (1e4, 1e6))
    return Layers({"local": local, "full": full}, ("local",) * 5 + ("full",), layers=12, windows={"local": 3})


def test_gemma3_has_two_bases_and_a_window_for_one() -> None:
    layers, at = gemma3(), arange(9)
    placed = layers.at(at)
    q, k, v = torch.randn(3, 1, 2, 9, 8)
    for i in range(12):
        is_full = i % 6 == 5
        alone = Rotary(8, pairing="half", base=1e6 if is_full else 1e4).at(at)
        got = attention(*placed[i].rotate(q, k), v, placed[i], causal=True)
        want = attention(*alone.rotate(q, k), v, alone, Mask(causal=True, window=None if is_full else 3))
        assert torch.equal(got, want)
    lines = layers.describe().splitlines()
    assert [line.split(": ")[0] for line in lines] == ["layers 0–4", "layer 5", "layers 6–10", "layer 11"]
    assert lines[0].endswith(", window 3")
    assert "window" not in lines[1]
    assert placed[0] is placed[6], "a kind is placed once for all its layers"


def test_llama4_scales_queries_where_it_does_not_rotate() -> None:
    layers = posenc.encoding("layers(rotary*3 + stack(nope, query-scale))", head_dim=8, layers=8)
    placed = layers.at(arange(2, offset=8190))
    assert [rotates(placed[i]) for i in range(8)] == [True, True, True, False] * 2
    assert [placed[i].scale is None for i in range(8)] == [True, True, True, False] * 2
    scale = placed[3].scale
    assert scale.flatten().tolist() == pytest.approx([1.0, 1.0693147], abs=6e-8)
    assert layers.describe().splitlines()[1] == (
        "layer 3: stack(nope, query-scale): nope + query-scale: rule='llama4', amount=0.1, floor=8192"
    )


@pytest.mark.parametrize("text", ["layers(rotary*3 + nope)", "layers(t5 + stack(rotary, fox))", "layers(fox)"])
def test_a_model_of_mixed_layers_reads_pieces_as_the_whole(text: str) -> None:
    config = Model(width=32, layers=4)
    encoding = posenc.encoding(text, width=32, heads=4, head_dim=8, layers=4)
    model = Transformer(config, encoding, 17).initialise(0).double().requires_grad_(False)
    row = torch.randint(17, (2, 12))
    cache = Cache()
    parts = [model(piece, cache=cache) for piece in row.split([5, 1, 1, 5], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(row), rtol=0, atol=1e-12)


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
