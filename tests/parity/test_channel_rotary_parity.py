"""Rotation told channel by channel against the code that the checkpoints run on."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from posenc import ChannelRotary

pytestmark = pytest.mark.usefixtures("recent_transformers")


@pytest.mark.parametrize("head_dim", [64, 72])
def test_gemma4_turns_in_two_blocks(head_dim: int) -> None:
    from transformers.models.gemma4 import modeling_gemma4 as home

    config = SimpleNamespace(rope_parameters={"rope_type": "axial", "rope_theta": 100.0}, head_dim=head_dim)
    at = torch.randint(100, (2, 3, 40))
    ids = at.flip(0).permute(1, 2, 0)  # theirs has columns first
    tables = home.Gemma4VisionRotaryEmbedding(config)(torch.zeros(1), ids)
    q, k = torch.randn(2, 3, 2, 40, head_dim)
    rotary = ChannelRotary(head_dim, layout="gemma4-vision", phases="float32")
    want = tuple(home.apply_multidimensional_rope(x.transpose(1, 2), *tables, ids).transpose(1, 2) for x in (q, k))
    torch.testing.assert_close(rotary.at(at).rotate(q, k), want, rtol=0, atol=2**-22 * 5)


@pytest.mark.parametrize("head_dim", [20, 64, 72])
def test_v_jepa2_turns_as_trained(head_dim: int) -> None:
    from transformers.models.vjepa2.modeling_vjepa2 import VJEPA2RopeAttention

    third = 2 * ((head_dim // 3) // 2)
    self = SimpleNamespace(attention_head_size=head_dim, d_dim=third, h_dim=third, w_dim=third)
    at = torch.randint(24, (3, 40))
    x = torch.randn(2, 2, 40, head_dim)
    want = VJEPA2RopeAttention.apply_rotary_embeddings(self, x, at)
    mine, _ = ChannelRotary(head_dim, layout="v-jepa2", phases="float32").at(at).rotate(x, x)
    # Frequencies are made in another order, (1 + ln base)·2^-23 apart, and turned up to 24 places.
    torch.testing.assert_close(mine, want, rtol=0, atol=24 * 11 * 2**-23 * 5)


def test_hunyuan_vl_turns_as_in_transformers() -> None:
    from transformers.models.hunyuan_vl import modeling_hunyuan_vl as home

    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16] * 4}
    config = SimpleNamespace(rope_parameters=rope, head_dim=128, max_position_embeddings=1000)
    ids = torch.randint(1000, (4, 2, 50))
    q, k = torch.randn(2, 2, 3, 50, 128)
    want = home.apply_rotary_pos_emb(q, k, *home.HunYuanVLRotaryEmbedding(config)(torch.zeros(1), ids))
    rotary = ChannelRotary(128, layout="hunyuan-vl", phases="float32")
    torch.testing.assert_close(rotary.at(ids).rotate(q, k), want, rtol=0, atol=2**-22 * 6)


def test_ernie_image_turns_neighbours_angles_half_a_head_apart() -> None:
    """No public package here runs it; this is its formula in float64: angle c//2 for channel c, halves mixed."""
    D, shares, base = 32, (4, 6, 6), 256.0
    at = torch.randint(64, (3, 30))
    x = torch.randn(1, 1, 30, D, dtype=torch.float64)
    ladders = [base ** -(torch.arange(n, dtype=torch.float64) / n) for n in shares]
    angles = torch.cat([a[:, None] * ladder for a, ladder in zip(at.double(), ladders, strict=True)], -1)
    full = angles.repeat_interleave(2, -1)
    a, b = x.chunk(2, -1)
    want = x * full.cos() + torch.cat((-b, a), -1) * full.sin()
    placed = ChannelRotary(D, layout="ernie-image").at(at, dtype=torch.float64)
    torch.testing.assert_close(placed.rotate(x, x)[0], want, rtol=0, atol=1e-13)


RATIO = partial(torch.linalg.vector_norm, dim=-1)


@pytest.mark.parametrize(
    ("layout", "head_dim"), [("v-jepa2", 20), ("v-jepa2", 64), ("ernie-image", 32), ("hunyuan-vl", 128)]
)
def test_a_layout_that_is_no_rotation_says_so(layout: str, head_dim: int) -> None:
    """Lengths change, and moving both tokens together changes their score."""
    rotary = ChannelRotary(head_dim, layout=layout)  # type: ignore[arg-type]
    assert not rotary.isometric
    assert not rotary.relative
    q, k = torch.randn(2, 1, 1, 1, head_dim, dtype=torch.float64)
    here = torch.arange(1, 1 + rotary.axes)[:, None]

    def score(shift: int) -> float:
        placed = [rotary.at(at + shift, dtype=torch.float64) for at in (here, 0 * here)]
        return float((placed[0].rotate(q, q)[0] * placed[1].rotate(k, k)[0]).sum())

    turned, _ = rotary.at(here + 5, dtype=torch.float64).rotate(q, q)
    assert abs(float(RATIO(turned) / RATIO(q)) - 1) > 1e-3
    assert abs(score(100) - score(0)) > 0.1


def test_gemma4s_is_a_rotation() -> None:
    assert ChannelRotary(64, layout="gemma4-vision").isometric
    assert ChannelRotary(64, layout="gemma4-vision").relative
