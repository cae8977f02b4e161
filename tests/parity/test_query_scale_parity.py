"""The scale of queries against transformers: a layer of Llama 4 without rotation, and Ministral 3's factors."""

import pytest
import torch

from posenc import QueryScale, SSMax, attention
from posenc.positions import arange


def test_a_layer_of_llama4() -> None:
    """Theirs counts from the start of a cache; a floor of 8 puts 14 steps into 110 tokens."""
    from transformers.models.llama4.configuration_llama4 import Llama4TextConfig
    from transformers.models.llama4.modeling_llama4 import Llama4TextAttention

    config = Llama4TextConfig(
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        no_rope_layers=[0],
        num_hidden_layers=1,
        attn_temperature_tuning=True,
        floor_scale=8,
        attn_scale=0.4,
        attn_implementation="eager",
    )
    theirs = Llama4TextAttention(config, layer_idx=0).double().eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    x = torch.randn(2, 110, 32, dtype=torch.float64)
    future = torch.full((110, 110), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    with torch.no_grad():
        want = theirs(x, None, future)[0]
        maps = theirs.q_proj, theirs.k_proj, theirs.v_proj
        q, k, v = (f(x).unflatten(-1, (-1, 8)).transpose(1, 2) for f in maps)
        placed = QueryScale(floor=8, amount=0.4).at(arange(110))
        got = theirs.o_proj(attention(q, k, v, placed, causal=True).transpose(1, 2).flatten(-2))
    # Both have factors in float32, up to 2.1, off by 2^-24 each; scores are some tens.
    torch.testing.assert_close(got, want, rtol=0, atol=2**-22 * 100)


def test_the_factors_of_ministral3() -> None:
    from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale

    at = torch.cat((arange(40_000), torch.tensor([131_071, 131_072, 10**6])))
    want = get_llama_4_attn_scale(at[None], 0.1, 16_384).flatten()
    got = QueryScale(rule="ministral3", floor=16_384).factors(at)
    # One rounding of the logarithm, of its product and of the sum.
    torch.testing.assert_close(got, want, rtol=3 * 2**-24, atol=0)


def test_the_factors_of_beam() -> None:
    beam = pytest.importorskip("transformers.models.beam.modeling_beam")
    at = torch.cat((arange(5000), torch.tensor([131_071, 10**6])))
    want = beam.compute_attention_scaling(at[None]).flatten()
    # Theirs rounds a logarithm and a product, which exp takes .63 times over at most, and exp to a unit.
    torch.testing.assert_close(QueryScale(rule="beam", floor=2048).factors(at), want, rtol=5 * 2**-24, atol=0)


def test_the_factors_of_mistral_large_4_which_it_rounds_to_the_model() -> None:
    """Their float32 module equals ours; their bfloat16 one has ln 131072 = 11.8125 for 11.78."""
    theirs = pytest.importorskip("transformers.models.mistral_large4.modeling_mistral_large4")
    module, ours = theirs.MistralLarge4TextSoftmaxScaling(4), SSMax(4, offset=True)
    with torch.no_grad():
        for own, other in ((ours.weight, module.scale), (ours.bias, module.bias)):
            own.copy_(torch.rand(4) + 0.5)
            other.copy_(own)
    at = torch.tensor([[0, 1, 100, 131_071]])
    q = torch.ones(1, 4, 4, 2)
    want = module(q, at, head_dim_first=True)[..., :1]
    torch.testing.assert_close(ours.at(at).scale, want, rtol=2**-23, atol=0)
    rounded = module.to(torch.bfloat16)(q.bfloat16(), at, head_dim_first=True)[..., :1].float()
    assert ours.to(torch.bfloat16).at(at).scale.dtype == torch.float32
    assert (rounded - want)[:, :, 3].abs().max() > 0.01
