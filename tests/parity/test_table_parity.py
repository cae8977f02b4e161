"""Tables against transformers (Whisper, M2M100, RoFormer, GPT-2, Swin)."""

import math

import pytest
import torch

from posenc import Learned, Sinusoidal, Window
from posenc.positions import arange
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer

FLOAT32_ANGLE = 2.0**-23
"""Their angles are float32: position × frequency is off by a unit in its last place, twice."""


@pytest.mark.parametrize("width", [8, 64, 384])
def test_whisper(width: int) -> None:
    from transformers.models.whisper.modeling_whisper import sinusoids

    ours = Sinusoidal(width, order="block", spacing="tensor2tensor").table(arange(1500))
    torch.testing.assert_close(ours, sinusoids(1500, width), rtol=0, atol=1500 * 2 * FLOAT32_ANGLE)


@pytest.mark.parametrize("width", [8, 64, 512])
def test_m2m100(width: int) -> None:
    """Their position 0 is our 2: the table starts after a padding row and an offset."""
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

    embedded = M2M100SinusoidalPositionalEmbedding(60, width, padding_idx=1)(torch.full((1, 50), 7))
    ours = Sinusoidal(width, order="block", spacing="tensor2tensor").table(arange(50, offset=2))
    torch.testing.assert_close(ours, embedded[0], rtol=0, atol=64 * 2 * FLOAT32_ANGLE)


def test_the_papers_table_is_roformers() -> None:
    from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding

    theirs = RoFormerSinusoidalPositionalEmbedding(100, 32)
    ours = Sinusoidal(32, order="block").table(arange(100))
    weight = theirs.create_weight() if hasattr(theirs, "create_weight") else theirs._init_weight()
    torch.testing.assert_close(ours, weight.float(), rtol=0, atol=100 * 2 * FLOAT32_ANGLE)


def test_a_whole_gpt2() -> None:
    """Logits of a random GPT-2 in float64, from position 0 and from a cache's end."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=32,
        n_head=4,
        n_layer=2,
        vocab_size=31,
        n_positions=64,
        activation_function="gelu",
        attn_implementation="eager",
    )
    theirs = GPT2LMHeadModel(config).double().eval()
    ours = Transformer(Model(width=32, tied=True), Learned(64, 32), 31).double()
    with torch.no_grad():
        ours.embedding.weight.copy_(theirs.transformer.wte.weight)
        ours.encoding.weight.copy_(theirs.transformer.wpe.weight)
        ours.norm.load_state_dict(theirs.transformer.ln_f.state_dict())
        for mine, their in zip(ours.layers, theirs.transformer.h, strict=True):
            mine.attention_norm.load_state_dict(their.ln_1.state_dict())
            mine.feedforward_norm.load_state_dict(their.ln_2.state_dict())
            for linear, turned in (
                (mine.attention.qkv, their.attn.c_attn),
                (mine.attention.out, their.attn.c_proj),
                (mine.feedforward.inner, their.mlp.c_fc),
                (mine.feedforward.outer, their.mlp.c_proj),
            ):
                linear.weight.copy_(turned.weight.T)
                linear.bias.copy_(turned.bias)
        tokens = torch.randint(31, (2, 64))
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-10)
        at = arange(20, offset=44)
        want = theirs(tokens[:, :20], position_ids=at[None]).logits
        torch.testing.assert_close(ours(tokens[:, :20], at), want, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("recent_transformers")
@pytest.mark.parametrize("size", [(7, 7), (3, 5), (12, 1)])
def test_swins_index_and_bias(size: tuple[int, int]) -> None:
    from transformers.models.swin.modeling_swin import SwinRelativePositionBias

    window, theirs = Window(3, size=size, std=1.0), SwinRelativePositionBias(3, size)
    at, tokens = torch.cartesian_prod(*map(torch.arange, size)).T, math.prod(size)
    with torch.no_grad():
        theirs.relative_position_bias_table.copy_(window.weight)
        assert torch.equal(window.at(at.contiguous()).bias.rows(0, tokens, tokens), theirs())
