"""T5 against transformers: buckets, the bias of encoders and decoders with a cache, and whole self-attention."""

import pytest
import torch

from posenc import T5, attention, scores
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
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.5)
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
    assert bias is not None
    assert torch.equal(bias.rows(0, T, 300), want)
    assert bias.toeplitz is not None
    for row in (0, T - 1):
        start = 299 - (cached + row)
        assert torch.equal(bias.toeplitz[:, start : start + 300], want[0, :, row])


@pytest.mark.parametrize("decoder", [True, False])
def test_whole_self_attention(decoder: bool) -> None:
    """Theirs in float64 on random tokens; scale=1.0, since T5 does not divide by √D.

    Some versions take softmax in float32. Scores s, their exponentials, a sum of 40 and its quotients are rounded
    then, which changes a weight by at most its 2^-24·(2·max|s| + 44)th, and so every value before the last matrix.
    """
    theirs, ours = pair(decoder)
    theirs, ours = theirs.double(), ours.double()
    x = torch.randn(2, 40, 24, dtype=torch.float64)
    mask = torch.zeros(1, 1, 40, 40, dtype=torch.float64)
    if decoder:
        mask = mask.masked_fill(torch.ones(40, 40, dtype=torch.bool).triu(1), -torch.inf)
    with torch.no_grad():
        want, _, weights = theirs(x, mask=mask, output_attentions=True)[:3]
        q, k, v = (f(x).unflatten(-1, (4, 8)).transpose(1, 2) for f in (theirs.q, theirs.k, theirs.v))
        placed = ours.at(arange(40), dtype=torch.float64)
        y = theirs.o(attention(q, k, v, placed, causal=decoder, scale=1.0).transpose(1, 2).flatten(-2))
        scaled = theirs.o(attention(q, k, v, placed, causal=decoder).transpose(1, 2).flatten(-2))
        share = 2.0**-24 * (2 * scores(q, k, placed, scale=1.0).abs().max() + 44)
        rounding = share * v.abs().max() * theirs.o.weight.abs().sum(1).max()
    in_float32 = torch.equal(weights, weights.float())
    torch.testing.assert_close(y, want, rtol=0, atol=rounding.item() if in_float32 else 1e-11)
    assert (scaled - want).abs().max() > 1e-2, "the scale matters"
