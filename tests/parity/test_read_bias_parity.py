"""Biases that queries and keys meet, against transformers and x-transformers, their code run as it is."""

from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor

from posenc import CoPE, Inkling, Mask, Shaw, TransformerXL, scores
from posenc.positions import arange


def heads(T: int, H: int = 4, D: int = 8) -> tuple[Tensor, Tensor]:
    q, k = torch.randn(2, 2, H, T, D, dtype=torch.float64)
    return q, k


@pytest.mark.usefixtures("recent_transformers")
@pytest.mark.parametrize(("behind", "ahead"), [(64, 8), (5, 3), (300, 0)])
def test_shaw_in_wav2vec2_bert(behind: int, ahead: int) -> None:
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import _apply_relative_key_position_encoding

    shaw, (q, k) = Shaw(8, 4, behind=behind, ahead=ahead, std=1.0).double(), heads(150)
    table = torch.nn.Embedding.from_pretrained(shaw.weight.detach())
    settings = {"left_max_position_embeddings": behind, "right_max_position_embeddings": ahead}
    module = SimpleNamespace(distance_embedding=table, scaling=8**-0.5, **settings)
    want = q @ k.mT / 8**0.5 + _apply_relative_key_position_encoding(module, q, k)[1]
    got = scores(q, k, shaw.at(arange(150), dtype=torch.float64))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("recent_transformers")
@pytest.mark.parametrize("cached", [0, 100, 149])
def test_inkling_in_transformers(cached: int) -> None:
    """Their bias is added after 1/√D too; cached tokens are known by their positions."""
    from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

    ours, theirs = Inkling(24, 4, extent=40, basis=6).double(), InklingRelativeLogits(6, 40).double()
    x = torch.randn(2, 150, 24, dtype=torch.float64)
    theirs.proj.data = ours.curves.data
    states = torch.nn.functional.linear(x[:, cached:], ours.weight).unflatten(-1, (4, 6))
    at = arange(150)
    want = theirs(states, at[cached:], at)
    here, _ = ours.at(at[cached:], at, dtype=torch.float64).with_content(x[:, cached:])
    torch.testing.assert_close(here.bias.rows(0, 150 - cached, 150), want, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("recent_transformers")
def test_inkling_2_cuts_what_tokens_say() -> None:
    """Some of r are shorter than 1 and stay; theirs is in float32, with sums of 6 squares and three products."""
    from transformers.models.inkling2.modeling_inkling2 import Inkling2ScaledL2Clip

    ours, theirs = Inkling(24, 4, extent=40, basis=6, clip=1.0), Inkling2ScaledL2Clip(4, 6, 1.0)
    torch.nn.init.uniform_(ours.lengths, 0.5, 2.0)
    theirs.scale.data = ours.lengths.data
    said = torch.randn(2, 30, 4, 6) * torch.rand(2, 30, 4, 1)
    cut = ours.clipped(said)
    torch.testing.assert_close(cut, theirs(said), rtol=16 * 2**-24, atol=0)
    assert 0.1 < (cut.norm(dim=-1) < 0.999).float().mean() < 0.9


def filled(module: torch.nn.Module) -> torch.nn.Module:
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module.double()


@pytest.mark.parametrize("T", [1, 2, 37])
def test_transformer_xl_in_parakeet(T: int) -> None:
    """Whole attention layers; what they shift into place is looked up, and, at positions in rows, multiplied."""
    from transformers import ParakeetEncoderConfig
    from transformers.models.parakeet import modeling_parakeet as parakeet

    config = ParakeetEncoderConfig(hidden_size=32, num_attention_heads=4, attn_implementation="eager")
    config.num_key_value_heads = 4
    theirs = filled(parakeet.ParakeetEncoderAttention(config, 0)).eval()
    x = torch.randn(2, T, 32, dtype=torch.float64)
    table = parakeet.ParakeetEncoderRelPositionalEncoding(config)(x)
    weights = theirs(x, table)[1]

    ours = TransformerXL(32, 4, 8).double()
    with torch.no_grad():
        ours.weight.copy_(theirs.relative_k_proj.weight)
        ours.u.copy_(theirs.bias_u)
        ours.v.copy_(theirs.bias_v)
        q, k = (f(x).unflatten(-1, (4, 8)).transpose(1, 2) for f in (theirs.q_proj, theirs.k_proj))
        for at in (arange(T), arange(T).expand(2, -1), arange(T, offset=10**9)[None]):
            got = scores(q, k, ours.at(at, dtype=torch.float64)).softmax(-1)
            # Their angles are rounded to float32: up to 36 radians, by 2^-24 of that each.
            torch.testing.assert_close(got, weights, rtol=0, atol=2e-5)


@pytest.mark.parametrize("positions", [2, 5, 64])
def test_cope_in_x_transformers(positions: int, x_transformers: ModuleType) -> None:
    """Causal: theirs is given scores whose future is hidden already."""
    theirs, ours = x_transformers.CoPE(8, 4, positions).double(), CoPE(8, 4, positions=positions, std=1.0).double()
    theirs.pos_emb.data = ours.weight.data
    q, k = heads(30)
    plainly = (q @ k.mT / 8**0.5).masked_fill(torch.ones(30, 30, dtype=torch.bool).triu(1), -torch.inf)
    got = scores(q, k, ours.at(arange(30), dtype=torch.float64), Mask(causal=True))
    torch.testing.assert_close(got, plainly + theirs(q, plainly), rtol=0, atol=1e-12)
