"""Learned tables resized, against the code that has each convention."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from posenc import LearnedGrid
from posenc.encodings.resize import gathered
from posenc.positions import grid

pytestmark = pytest.mark.usefixtures("recent_transformers")

WIDTH = 12
SIZES = [(7, 7), (37, 37), (20, 9), (16, 31), (1, 5)]


def bound(source: int, table: Tensor) -> float:
    """Theirs places cells in float32, off by source·2^-23 of a cell and a few roundings more; the cubic's slope is
    below 2, four cells an axis weigh at most 1.6 in sum, and both axes and the sums add."""
    return 2 * 4 * 2 * (source + 8) * 2.0**-23 * 1.6 * table.abs().max().item()


def resized(source: tuple[int, int], size: tuple[int, int], how: str) -> tuple[Tensor, Tensor]:
    """A table (1, C, N, M) and what ours makes of it, (1, C, n, m)."""
    table = LearnedGrid(source[0], WIDTH, columns=source[1], std=1.0)
    rows = table.resized(*size, how).table().detach()
    return table.weight.detach().unflatten(0, source).permute(2, 0, 1)[None], rows.permute(2, 0, 1)[None]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("how", "mode", "flags"),
    [
        ("timm", "bicubic", {"antialias": True}),  # timm's resample_abs_pos_embed
        ("vit", "bicubic", {}),
        ("siglip2", "bilinear", {"antialias": True}),
        ("inkling2", "bilinear", {}),
        ("qwen3-vl", "bilinear", {"align_corners": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_is_resized_as_torch_does(how: str, mode: str, flags: dict, size: tuple[int, int]) -> None:
    for source in ((16, 16), (5, 24)):
        table, mine = resized(source, size, how)
        want = interpolate(table, size=size, mode=mode, **flags)
        torch.testing.assert_close(mine, want, rtol=0, atol=bound(max(source), table))


@pytest.mark.parametrize("size", [(7, 7), (37, 37), (20, 9)], ids=str)
def test_dinos_ratio_has_a_tenth_of_a_cell_too_many(size: tuple[int, int]) -> None:
    table, mine = resized((16, 16), size, "dino")
    factors = tuple((n + 0.1) / 16 for n in size)
    want = interpolate(table, scale_factor=factors, mode="bicubic", recompute_scale_factor=False)
    torch.testing.assert_close(mine, want, rtol=0, atol=bound(16, table))


def test_vit_and_dinov2_as_in_transformers() -> None:
    from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    table = LearnedGrid(4, WIDTH, std=1.0, resize="vit")
    entries = torch.cat((torch.zeros(1, WIDTH), table.weight.detach()))[None]
    patches = SimpleNamespace(patch_size=(2, 2))
    for home, size in ((ViTEmbeddings, 2), (Dinov2Embeddings, 2)):
        self = SimpleNamespace(position_embeddings=entries, patch_size=size, patch_embeddings=patches)
        want = home.interpolate_pos_encoding(self, torch.zeros(1, 1 + 6 * 3, WIDTH), 12, 6)[0, 1:]
        mine = table.resized(6, 3).table().flatten(0, 1)
        torch.testing.assert_close(mine, want, rtol=0, atol=bound(4, entries))


def test_siglip2_as_in_transformers() -> None:
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings

    table = LearnedGrid(4, WIDTH, std=1.0, resize="siglip2")
    entries = table.weight.detach()
    sizes = torch.tensor([[3, 2], [5, 6]])
    want = Siglip2VisionEmbeddings.resize_positional_embeddings(entries.view(4, 4, WIDTH), sizes, 30)
    for row, (rows, columns) in zip(want, sizes.tolist(), strict=True):
        mine = table.resized(rows, columns).table().flatten(0, 1)
        torch.testing.assert_close(mine, row[: rows * columns], rtol=0, atol=bound(4, entries))


@pytest.mark.parametrize(
    ("how", "mode", "align"),
    [("qwen3-vl", "bilinear", True), ("inkling2", "bilinear", False), ("vit", "bicubic", False)],
)
def test_gathered_rows_are_those_of_transformers(how: str, mode: str, align: bool) -> None:
    """Pictures of several sizes laid end to end, as Qwen3-VL's tower has them."""
    from transformers.vision_utils import get_vision_interpolation_indices_and_weights

    shapes = [(6, 4), (10, 12), (2, 2)]
    table = torch.randn(8, 8, WIDTH)
    indices, weights = get_vision_interpolation_indices_and_weights(
        torch.tensor([[1, *shape] for shape in shapes]), 8, mode=mode, align_corners=align
    )
    want = (table.flatten(0, 1)[indices] * weights[..., None]).sum(1)
    at = torch.cat([grid(*shape) for shape in shapes], 1)
    sizes = torch.cat([torch.tensor(shape)[:, None].expand(2, math.prod(shape)) for shape in shapes], 1)
    torch.testing.assert_close(gathered(table, at, sizes, how), want, rtol=0, atol=bound(8, table))
