"""Rotation of pictures and videos against transformers: every family's cos and sin, and where coordinates stand."""

import importlib
import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import posenc
from posenc.encodings.axes import chunked, first_last
from posenc.encodings.rotary import Rotary
from posenc.integrations.attention_layouts import LAYOUTS

pytestmark = pytest.mark.usefixtures("recent_transformers")

D = 64
HOMES = {
    "qwen-vl-vision": ("qwen2_vl", "Qwen2VLVisionRotaryEmbedding"),
    "step3.7-vision": ("step3p7", "Step3p7VisionRotaryEmbedding"),
    "pixtral": ("pixtral", "PixtralVisionRotaryEmbedding"),
    "kimi-k2.5-vision": ("kimi_k25", "Kimi_K25VisionRotaryEmbedding"),
    "minimax-m3-vision": ("minimax_m3_vl", "MiniMaxM3VLVisionRotaryEmbedding"),
    "sam2": ("sam2_video", "Sam2VideoVisionRotaryEmbedding"),
    "sam3-global": ("sam3", "Sam3ViTRotaryEmbedding"),
}
COLUMNS_FIRST = ("sam2", "sam3-global")
"""Families whose own position ids have columns before rows."""


def embedding(family: str) -> torch.nn.Module:
    module, name = HOMES[family]
    home = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    return getattr(home, name)(
        SimpleNamespace(
            rope_parameters={"rope_type": "axial", "rope_theta": 10_000.0},
            head_dim=D,
            memory_attention_hidden_size=D,
            memory_attention_downsample_rate=1,
            memory_attention_num_attention_heads=1,
        )
    )


def their_tables(family: str, at: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of every pair at positions (A, T), in float32."""
    ids = at.flip(0).T if family in COLUMNS_FIRST else at.T
    found = embedding(family)(torch.zeros(1), ids)
    tables = [table[0] if table.dim() == 3 else table for table in found]
    if family in COLUMNS_FIRST:  # neighbours are paired
        return tuple(table[:, ::2] for table in tables)  # type: ignore[return-value]
    return tuple(table[:, : table.shape[1] // 2] for table in tables)  # type: ignore[return-value]


def ours(family: str, head_dim: int = D, phases: str = "float32", **parts: int) -> Rotary:
    return posenc.encoding(LAYOUTS[family].encoding(head_dim, **parts), head_dim=head_dim, phases=phases)  # type: ignore[return-value]


def random_positions(family: str) -> Tensor:
    return torch.randint(1000, (len(LAYOUTS[family].letters), 500))


@pytest.mark.parametrize("family", sorted(set(HOMES) - {"sam3-global"}))
def test_float32_phases_are_theirs_bit_for_bit(family: str) -> None:
    at = random_positions(family)
    torch.testing.assert_close(ours(family).tables(at), their_tables(family, at), rtol=0, atol=0)


@pytest.mark.parametrize("family", sorted(HOMES))
def test_exact_phases_are_theirs_but_for_their_rounding(family: str) -> None:
    """Their frequencies are off by 2^-23·(1 + ln base) in relation, their angles by one rounding more.

    SAM 3 scales coordinates by a third first, two roundings more.
    """
    at, rotary = random_positions(family), ours(family, phases="exact")
    scaled = at.float() * (24 / 72) if family == "sam3-global" else at
    frequencies = torch.tensor([float(f) for f in rotary.clock.frequencies.exact], dtype=torch.float64)
    angles = at.T[:, list(rotary.axis_map.axis_of_pair)] * frequencies
    bound = angles * 2.0**-23 * (1 + math.log(10_000) + 2) + 2.0**-23
    for mine, want in zip(rotary.tables(at), their_tables(family, scaled), strict=True):
        assert ((mine - want).abs() <= bound).all()


def test_llama4_counts_from_one_and_leaves_the_class_token_alone() -> None:
    from transformers.models.llama4.modeling_llama4 import Llama4VisionRotaryEmbedding, vision_apply_rotary_emb

    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    config = SimpleNamespace(
        image_size=70, patch_size=14, hidden_size=2 * D, num_attention_heads=2, rope_parameters=rope
    )
    freqs = Llama4VisionRotaryEmbedding(config)(torch.zeros(1))
    at = torch.cat((LAYOUTS["llama4-vision"].positions(5, 5), torch.zeros(2, 1, dtype=torch.int64)), 1)
    q, k = torch.randn(2, 1, 2, 26, D)
    turned = vision_apply_rotary_emb(q.transpose(1, 2), k.transpose(1, 2), freqs)
    want = tuple(x.transpose(1, 2) for x in turned)
    torch.testing.assert_close(ours("llama4-vision").at(at).rotate(q, k), want, rtol=0, atol=2**-22 * 5)


@pytest.mark.parametrize(("rows", "columns"), [(14, 14), (5, 12)])
def test_dinov3_turns_by_fractions_of_the_picture(rows: int, columns: int) -> None:
    """Theirs rounds the coordinate, 2π times it, the frequency and their product: 2π·(4 + ln 100)·2^-24 rad."""
    from transformers.models.dinov3_vit.modeling_dinov3_vit import DINOv3ViTRopePositionEmbedding

    config = SimpleNamespace(
        rope_theta=100.0, hidden_size=2 * D, num_attention_heads=2, image_size=224, patch_size=16
    )
    picture = torch.zeros(1, 3, 16 * rows, 16 * columns)
    parts = math.lcm(rows, columns)
    at = LAYOUTS["dinov3"].positions(rows, columns, parts=parts)
    want = tuple(table[:, : D // 2] for table in DINOv3ViTRopePositionEmbedding(config).eval()(picture))
    for phases in ("exact", "float32"):
        mine = ours("dinov3", phases=phases, parts=parts).tables(at)
        torch.testing.assert_close(mine, want, rtol=0, atol=2 * math.pi * 9 * 2**-24)


@pytest.mark.parametrize(
    ("module", "name", "rope", "settings"),
    [
        (  # rows and columns in turn, the slowest pairs for time
            "ernie4_5_vl_moe",
            "Ernie4_5_VLMoeTextRotaryEmbedding",
            {"rope_theta": 5e5, "mrope_section": [22, 22, 20]},
            {"base": 5e5, "axes": first_last(20, 22, 22)},
        ),
        (  # sections as in Qwen2-VL, over the half of a head that rotates
            "glm4v",
            "Glm4vTextRotaryEmbedding",
            {"rope_theta": 1e4, "mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5},
            {"rotary_dim": 64, "axes": chunked(8, 12, 12)},
        ),
    ],
    ids=["ERNIE 4.5 VL", "GLM-4V"],
)
def test_texts_of_two_families_pair_neighbours(module: str, name: str, rope: dict, settings: dict) -> None:
    home = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    config = SimpleNamespace(
        rope_parameters={"rope_type": "default", **rope},
        head_dim=128,
        max_position_embeddings=1000,
        hidden_size=128,
        num_attention_heads=1,
    )
    ids = torch.randint(1000, (3, 2, 50))
    want = getattr(home, name)(config)(torch.zeros(1), ids)
    rotary = Rotary(128, pairing="interleaved", phases="float32", **settings)
    q, k = torch.randn(2, 2, 3, 50, 128)
    turned = home.apply_rotary_pos_emb(q, k, *want)
    torch.testing.assert_close(rotary.at(ids).rotate(q, k), turned, rtol=0, atol=2**-22 * 6)
