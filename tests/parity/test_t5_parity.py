"""T5 against transformers: buckets, and the bias of encoders and decoders with a cache."""

import pytest
import torch

from posenc import T5
from posenc.positions import arange

SETTINGS = [(32, 128), (32, 256), (64, 128), (16, 40), (8, 20), (320, 800), (128, 1000)]


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), SETTINGS)
def test_buckets(buckets: int, max_distance: int, two_sided: bool) -> None:
    """Ten thousand offsets; their logarithm in float32 is right, and so is our whole number."""
    from transformers.models.t5.modeling_t5 import T5Attention

    at = torch.arange(-5000, 5001)
    theirs = T5Attention._relative_position_bucket(at, two_sided, buckets, max_distance)
    ours = T5(1, buckets=buckets, max_distance=max_distance, two_sided=two_sided).bucket(at)
    assert torch.equal(ours, theirs)


def pair(decoder: bool):
    """Their self-attention with random weights, and ours with its table."""
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=24, d_kv=8, num_heads=4, is_decoder=decoder, attn_implementation="eager")
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    torch.nn.init.normal_(theirs.relative_attention_bias.weight)
    ours = T5(4, two_sided=not decoder)
    with torch.no_grad():
        ours.weight.copy_(theirs.relative_attention_bias.weight)
    return theirs, ours


@pytest.mark.parametrize("cached", [0, 5, 299])
@pytest.mark.parametrize("decoder", [True, False])
def test_the_bias_bit_for_bit(decoder: bool, cached: int) -> None:
    theirs, ours = pair(decoder)
    T = 300 - cached
    want = theirs.compute_bias(T, 300, past_seen_tokens=cached)
    bias = ours.at(arange(T, offset=cached), arange(300)).bias
    assert torch.equal(bias.rows(0, T, 300), want)
    for row in (0, T - 1):
        start = 299 - (cached + row)
        assert torch.equal(bias.toeplitz[:, start : start + 300], want[0, :, row])
