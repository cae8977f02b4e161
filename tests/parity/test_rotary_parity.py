"""Rotary against transformers (Llama and GPT-J); test_patch.py runs whole models of every family."""

import pytest
import torch

from posenc import Mask, Rotary
from posenc.positions import arange, left_padded
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer


def llama_config(base: float, **changes: object):
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=31,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": base},
        attn_implementation="sdpa",  # their eager masks are NaN in float64
        **changes,
    )


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("head_dim", [16, 64, 80, 128])
def test_float32_phases_are_llamas_bit_for_bit(base: float, head_dim: int) -> None:
    """Frequencies, angles, cos and sin, near and far: what public checkpoints were trained with."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = llama_config(base)
    config.head_dim = head_dim
    theirs = LlamaRotaryEmbedding(config)
    rotary = Rotary(head_dim, pairing="half", base=base, phases="float32")
    assert torch.equal(rotary.clock.float32_bits.view(torch.float32), theirs.inv_freq)
    at = torch.cat((arange(512), torch.tensor([4095, 131_071, 10**6, 10**7, 2**31 - 1])))
    want = tuple(table[0, :, : head_dim // 2] for table in theirs(torch.zeros(1), at[None]))
    torch.testing.assert_close(rotary.tables(at), want, rtol=0, atol=0)


def test_a_whole_llama() -> None:
    """Logits of a random Llama with grouped queries: plain, and left-padded.

    All in float64 but their norms, which round to float32: five of them, 2^-24 each, of values up to 4.
    """
    from transformers import LlamaForCausalLM

    theirs = LlamaForCausalLM(llama_config(1e4)).double().eval()
    config = Model(width=64, heads=4, kv_heads=2, hidden=96, norm="rms", activation="swiglu", biases=False)
    ours = Transformer(config, Rotary(16, pairing="half", phases="float32"), 31).double()
    with torch.no_grad():
        ours.embedding.weight.copy_(theirs.model.embed_tokens.weight)
        ours.head.weight.copy_(theirs.lm_head.weight)
        ours.norm.weight.copy_(theirs.model.norm.weight)
        for mine, their in zip(ours.layers, theirs.model.layers, strict=True):
            attention, mlp = their.self_attn, their.mlp
            maps = attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight
            mine.attention.qkv.weight.copy_(torch.cat(maps))
            mine.attention.out.weight.copy_(attention.o_proj.weight)
            mine.feedforward.inner.weight.copy_(torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)))
            mine.feedforward.outer.weight.copy_(mlp.down_proj.weight)
        tokens = torch.randint(31, (2, 40))
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=5 * 2**-24 * 4)
        mask = torch.arange(40) >= torch.tensor([[9], [0]])
        at = left_padded(mask)
        want = theirs(tokens, attention_mask=mask.long(), position_ids=at).logits
        torch.testing.assert_close(
            ours(tokens, at, mask=Mask(causal=True, key_mask=mask))[mask], want[mask], rtol=0, atol=5 * 2**-24 * 4
        )
        wrong = Transformer(config, Rotary(16, pairing="interleaved", phases="float32"), 31).double()
        wrong.load_state_dict(ours.state_dict())
        assert (wrong(tokens) - ours(tokens)).abs().max() > 1e-3, "the pairing matters"


def test_gptj_interleaves() -> None:
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    q = torch.randn(2, 4, 33, 16)
    sin, cos = create_sinusoidal_positions(64, 16)[None, 5:38].chunk(2, dim=-1)
    want = apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)
    got, _ = Rotary(16, pairing="interleaved", phases="float32").at(arange(33, offset=5)).rotate(q, q)
    torch.testing.assert_close(got, want, rtol=0, atol=2**-22 * 4)
