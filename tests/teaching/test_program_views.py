"""Rooms about programs and remappings show what the formulas say, derived here apart from the library."""

import json
import math

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.pictures.view import Lines
from posenc.teaching.lab.rooms import find
from posenc.teaching.views.remapped import distances
from support.views import only

LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "max_position_embeddings": 4096,
    "rope_theta": 500_000.0,
}


@pytest.mark.parametrize("distance", [1, 30, 900])
def test_a_wrong_base_is_as_far_off_as_its_angles(distance: int) -> None:
    """Of random keys the cosine is the mean over pairs of cos(d·(θ − θ')), ± 4 deviations of 64 draws."""
    values = find("misread").answer({"config": json.dumps(LLAMA), "distance": str(distance)}).readouts
    thetas = [[base ** (-2 * i / 64) for i in range(32)] for base in (5e5, 1e4)]
    want = sum(math.cos(distance * (right - wrong)) for right, wrong in zip(*thetas, strict=True)) / 32
    assert values["base 10 000 by default"] == pytest.approx(want, abs=4 / math.sqrt(64 * 32))
    assert "ignoring the scaling" not in values


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1, "n_positions": 64},
            "gpt2 has no rotary layers; paste",
        ),
        (LLAMA | {"max_position_embeddings": 1}, "max_position_embeddings=1 must be between 2 and"),
    ],
)
def test_what_has_no_rotation_or_no_distances_is_refused(config: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        find("misread").answer({"config": json.dumps(config)})


def test_distances_are_those_of_the_papers() -> None:
    q, k = torch.arange(64)[:, None], torch.arange(64)[None]
    near = (q - k).double()
    grouped = (q // 4 - k // 4 + 16 - 16 // 4).double()
    rerope, extended = (distances(method).panels[1].values for method in ("rerope", "self-extend"))
    seen = near >= 0
    torch.testing.assert_close(rerope[seen], near.clamp(max=16)[seen], rtol=0, atol=1e-4)
    torch.testing.assert_close(extended[seen], near.where(near < 16, grouped)[seen], rtol=0, atol=1e-4)
    assert rerope[~seen].isnan().all()
    assert distances().readouts["pairs at untrained distances with RoPE"] == str(32 * 33 // 2)


def test_the_headline_and_the_points_of_a_model_are_true_for_each_layer() -> None:
    """Gemma 3 sees everything in every sixth layer, by its own base and scaling; SmolLM3 has no positions there."""
    stage = find("layers")
    gemma, smol = (stage.answer(dict(state)) for _, state in stage.tries[:2])
    said = str(gemma.readouts["in words"])
    assert "5 layers with base 1\u202f000\u202f000, every frequency divided by 8" in said
    assert "29 layers with base 10\u202f000, no scaling" in said
    assert gemma.title == "gemma3_text: 29 of 34 layers see 1024 tokens, 5 of 34 layers see every token"
    waves, seen = (line.values for line in only(gemma, Lines).lines)
    for i in range(34):
        full = i % 6 == 5
        assert float(seen[i]) == (131072 if full else 1024)
        slowest = 8 * 1e6 ** (254 / 256) if full else 1e4 ** (254 / 256)
        assert float(waves[i]) == pytest.approx(2 * math.pi * slowest)
    assert "in some layers, no positional encoding in the others" in str(smol.readouts["in words"])
    assert smol.title.endswith(
        "27 of 36 layers see every token, 9 of 36 layers see every token and have no positional encoding"
    )
    waves, seen = (line.values for line in only(smol, Lines).lines)
    assert set(seen.tolist()) == {65536}
    assert [bool(wave.isnan()) for wave in waves] == [i % 4 == 3 for i in range(36)]
