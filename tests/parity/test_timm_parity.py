"""Rotation and resized tables against timm, where it is installed."""

import math

import pytest
import torch

import posenc
from posenc import LearnedGrid
from posenc.integrations.attention_layouts import LAYOUTS

D = 64
sincos = pytest.importorskip("timm.layers.pos_embed_sincos", reason="timm is not installed", exc_type=ImportError)
tables = pytest.importorskip("timm.layers.pos_embed", reason="timm is not installed", exc_type=ImportError)


def ours(family: str, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    here, parts = LAYOUTS[family], math.lcm(rows, columns)
    made = posenc.encoding(here.encoding(D, parts=parts), head_dim=D)
    return made.tables(here.positions(rows, columns, parts=parts))  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(14, 14), (24, 10)])
def test_eva(shape: tuple[int, int]) -> None:
    """Coordinates of up to 16, each of four roundings off by 2^-24 of it and the frequency's 1 + ln 10⁴."""
    embedding = sincos.RotaryEmbeddingCat(
        D, max_res=224, in_pixels=False, feat_shape=list(shape), ref_feat_shape=[16, 16]
    )
    sin, cos = embedding.get_embed().chunk(2, -1)
    torch.testing.assert_close(ours("eva", *shape), (cos[:, ::2], sin[:, ::2]), rtol=0, atol=16 * 15 * 2**-24)


def test_perception_encoder() -> None:
    """At the size that it was trained with it turns as Llama 4's tower does."""
    embedding = sincos.RotaryEmbeddingCat(
        D, in_pixels=False, feat_shape=[5, 7], grid_indexing="xy", grid_offset=1.0
    )
    sin, cos = embedding.get_embed().chunk(2, -1)
    family = LAYOUTS["llama4-vision"]
    mine = posenc.encoding(family.encoding(D), head_dim=D).tables(family.positions(5, 7))  # type: ignore[operator]
    torch.testing.assert_close(mine, (cos[:, ::2], sin[:, ::2]), rtol=0, atol=7 * 15 * 2**-24)


@pytest.mark.parametrize("shape", [(14, 14), (24, 10)])
def test_dinov3(shape: tuple[int, int]) -> None:
    embedding = sincos.RotaryEmbeddingDinoV3(D, feat_shape=list(shape), rotate_half=True)
    sin, cos = embedding.get_embed().chunk(2, -1)
    want = cos[:, : D // 2], sin[:, : D // 2]
    torch.testing.assert_close(ours("dinov3", *shape), want, rtol=0, atol=2 * math.pi * 9 * 2**-24)


@pytest.mark.parametrize("shape", [(7, 7), (37, 20)])
def test_a_resized_table(shape: tuple[int, int]) -> None:
    table = LearnedGrid(16, 12, std=1.0, resize="timm")
    want = tables.resample_abs_pos_embed(
        table.weight.detach()[None], list(shape), old_size=[16, 16], num_prefix_tokens=0
    )[0]
    # As in test_learned_grid_parity.py: theirs places cells in float32.
    atol = 2 * 4 * 2 * (16 + 8) * 2.0**-23 * 1.6 * table.weight.abs().max().item()
    torch.testing.assert_close(
        table.resized(*shape).table().flatten(0, 1), want, rtol=0, atol=atol, check_device=True
    )
