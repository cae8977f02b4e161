"""DeBERTa-v2 against transformers: buckets, whole attention layers, and fewer queries than keys."""

import pytest
import torch
from torch import Tensor

from posenc import DeBERTa, attention, scores
from posenc.positions import arange

SETTINGS = [(256, 512), (64, 512), (32, 128), (8, 40), (256, 2048)]


@pytest.mark.parametrize(("buckets", "max_distance"), SETTINGS)
def test_buckets(buckets: int, max_distance: int) -> None:
    """Their logarithm in float64; what leaves the table is clamped to it, on either side.

    At M − 1 a logarithm is divided by itself, multiplied and rounded up, and theirs may come out one too high.
    """
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    distance = torch.arange(-3000, 3001, dtype=torch.float64)
    theirs = make_log_bucket_position(distance, buckets, max_distance).long()
    ours = DeBERTa(1, 1, buckets=buckets, max_distance=max_distance).bucket(-distance.long())
    differ = distance[ours != (theirs + buckets).clamp(0, 2 * buckets - 1)].tolist()
    assert differ in ([], [1.0 - max_distance])
    assert not differ or (buckets, max_distance) != (256, 512), "the setting of every checkpoint"


def layer(*kinds: str) -> tuple[torch.nn.Module, DeBERTa, Tensor]:
    """Theirs with random weights, ours with its table as its projections make it, and the table."""
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    config = DebertaV2Config(
        hidden_size=24,
        num_attention_heads=3,
        relative_attention=True,
        position_buckets=8,
        max_relative_positions=40,
        pos_att_type=list(kinds),
        share_att_key=True,
    )
    theirs = DisentangledSelfAttention(config).double().eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    table, ours = torch.randn(16, 24, dtype=torch.float64), DeBERTa(8, 3, buckets=8, max_distance=40).double()
    with torch.no_grad():
        ours.keys.copy_(theirs.key_proj(table) if "c2p" in kinds else torch.zeros(16, 24))
        ours.queries.copy_(theirs.query_proj(table) if "p2c" in kinds else torch.zeros(16, 24))
    return theirs, ours, table


def projected(theirs: torch.nn.Module, x: Tensor) -> list[Tensor]:
    maps = theirs.query_proj, theirs.key_proj, theirs.value_proj
    return [f(x).unflatten(-1, (3, 8)).transpose(1, 2) for f in maps]


@pytest.mark.parametrize("kinds", [("c2p", "p2c"), ("c2p",), ("p2c",)])
def test_whole_attention_layers(kinds: tuple[str, ...]) -> None:
    """Their divisor counts the terms: √(D·terms); √3 and √8 in it are float32's."""
    theirs, ours, table = layer(*kinds)
    x = torch.randn(2, 60, 24, dtype=torch.float64)
    with torch.no_grad():
        want = theirs(x, torch.ones(2, 1, 60, 60, dtype=torch.bool), rel_embeddings=table)[0]
        scale = 1 / torch.tensor(8.0 * (1 + len(kinds))).sqrt().item()
        got = attention(*projected(theirs, x), ours.at(arange(60), dtype=torch.float64), scale=scale)
    torch.testing.assert_close(got.transpose(1, 2).flatten(-2), want, rtol=0, atol=1e-12)


def test_fewer_queries_than_keys_are_rows_of_the_whole() -> None:
    """Theirs then swaps the number of buckets and the largest distance: 300 falls into bucket 10 077."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_rpos

    theirs, ours, _ = layer("c2p", "p2c")
    q, k, _ = projected(theirs, torch.randn(2, 60, 24, dtype=torch.float64))
    whole = scores(q, k, ours.at(arange(60), dtype=torch.float64))
    last = scores(q[:, :, 50:], k, ours.at(arange(10, offset=50), arange(60), dtype=torch.float64))
    torch.testing.assert_close(last, whole[:, :, 50:], rtol=0, atol=1e-12)

    at = torch.zeros(1, 1, 8), torch.zeros(1, 700, 8), None
    assert build_rpos(*at, 256, 512)[0, 300, 0] == 207
    assert build_rpos(*at, 512, 256)[0, 300, 0].abs() == 10077, "as their layer calls it"
    row = DeBERTa(1, 1).bucket(torch.tensor([-300, -128, -129, -200, -256, -400, -510, -512, 255, 256, 300]))
    assert row.tolist() == [463, 384, 385, 425, 448, 489, 511, 511, 64, 64, 49]
