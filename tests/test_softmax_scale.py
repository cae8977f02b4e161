"""An encoding's own scale of scores, carried to attention and applied once; and what only causal models have."""

import math

import pytest
import torch
from tests.support.tiny_models import tiny, tokens
from torch import Tensor

import posenc
from posenc.attend.call import scale_of_scores
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import patched, read, write
from posenc.positions import arange
from posenc.scaling import YaRN

DEEPSEEK = YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
FACTOR = (0.1 * math.log(40) + 1) ** 2


def heads(width: int = 8, length: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, 1, 4, length, width, generator=torch.Generator().manual_seed(0))
    return q, k, v


@pytest.mark.parametrize(
    ("encoding", "scale"),
    [
        (posenc.Rotary(8, pairing="half", scaling=DEEPSEEK), FACTOR / math.sqrt(8)),
        (posenc.Rotary(8, pairing="half", scaling=DEEPSEEK, softmax_factor=1.0), 1 / math.sqrt(8)),
        (posenc.XPos(8, pairing="half", scaling=DEEPSEEK), FACTOR / math.sqrt(8)),
        (posenc.Rotary(8, pairing="half"), 1 / math.sqrt(8)),
        (posenc.T5(4), 1 / math.sqrt(8)),
        (posenc.T5(4, softmax_scale=1.0), 1.0),
        (posenc.DeBERTa(8, 4, buckets=4, max_distance=8, softmax_scale=24**-0.5), 24**-0.5),
        (posenc.Stack(posenc.Rotary(8, pairing="half", scaling=DEEPSEEK), posenc.ALiBi(4)), FACTOR / math.sqrt(8)),
        (posenc.Layers({"t5": posenc.T5(4, softmax_scale=1.0)}, ("t5",)), 1.0),
    ],
    ids=str,
)
def test_attention_takes_the_scale_of_the_encoding_once(encoding: posenc.Encoding, scale: float) -> None:
    placed, (q, k, v) = encoding.at(arange(6))[0], heads()
    q, k = placed.rotate(q, k)
    want = posenc.attention(q, k, v, placed, causal=True, scale=scale)
    torch.testing.assert_close(posenc.attention(q, k, v, placed, causal=True), want, rtol=0, atol=2e-6)
    dense = posenc.scores(q, k, placed, causal=True).softmax(-1) @ v
    torch.testing.assert_close(dense, want, rtol=0, atol=2e-6)


def test_a_stack_has_one_scale() -> None:
    t5, rotary = posenc.T5(2, softmax_scale=1.0), posenc.Rotary(8, pairing="half", softmax_factor=1.5)
    with pytest.raises(InvalidArgument, match="build all encodings with the same settings"):
        posenc.Stack(t5, rotary).at(arange(4))


def test_yarns_second_factor_is_applied_once_by_what_is_read() -> None:
    """Scores of DeepSeek's first layer, out of the model's own hands, against what was read with attention."""
    model, ids = tiny("deepseek-v3"), tokens()
    positions = read(model.config)
    layers = positions.as_layers(phases="float32")
    attend, at = model.model.layers[0].self_attn, arange(ids.shape[1])
    assert attend.scaling == pytest.approx(scale_of_scores(layers.at(at)[0], attend.qk_head_dim, None))
    with patched(model, layers):  # which leaves the model's own scale alone
        inside = attend.scaling, model(ids).logits
    torch.testing.assert_close(inside[1], model(ids).logits, rtol=0, atol=0)
    assert inside[0] == attend.scaling
    for scaling in (None, YaRN(8.0, 64, mscale=1.0, mscale_all_dim=1.0), posenc.scaling.NTK(4.0)):
        other = type(model)(type(model.config)(**write(positions, scaling)))
        again = positions if scaling is None else positions.with_scaling(scaling)
        carried = scale_of_scores(again.as_layers().at(at)[0], attend.qk_head_dim, None)
        assert other.model.layers[0].self_attn.scaling == pytest.approx(carried), scaling


def test_a_family_without_the_second_factor_does_not_gain_it() -> None:
    """transformers' Llama reads mscale_all_dim for cos and sin alone, whoever states it."""
    entry = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 1e4}
    stated = {**entry, "mscale": 1.0, "mscale_all_dim": 0.5}
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 1}
    plain = read({**config, "max_position_embeddings": 256, "rope_parameters": {"rope_theta": 1e4}})
    scaling = YaRN(4.0, 64, mscale=1.0, mscale_all_dim=0.5)
    for positions in (
        read({**config, "max_position_embeddings": 256, "rope_parameters": stated}),
        plain.with_scaling(scaling),
    ):
        placed = positions.as_layers().at(arange(4))[0]
        assert scale_of_scores(placed, 8, None) == pytest.approx(1 / math.sqrt(8))
        assert positions.with_scaling(None).as_layers().at(arange(4))[0].softmax_factor == 1


CAUSAL = {
    "fox": posenc.FoX(32, 4),
    "fire": posenc.FIRE(4),
    "inkling": posenc.Inkling(32, 4),
    "xpos": posenc.XPos(8, pairing="half"),
    "stack": posenc.Stack(posenc.Rotary(8, pairing="half"), posenc.FIRE(4)),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_what_is_defined_for_causal_models_refuses_a_mask_of_both_sides(name: str) -> None:
    placed, (q, k, v) = CAUSAL[name].at(arange(6))[0], heads()
    placed, state = placed.with_content(torch.randn(1, 6, 32))
    q, k = placed.rotate(q, k)
    for both_sides in (None, posenc.Mask(window=2), posenc.Mask(key_mask=torch.ones(1, 6).bool())):
        with pytest.raises(InvalidArgument, match=r"defined only for causal models.*pass causal=True"):
            posenc.attention(q, k, v, placed, both_sides)
    whole = posenc.attention(q, k, v, placed, causal=True)
    last = (
        CAUSAL[name].at(arange(1, offset=5), arange(6))[0].with_content(torch.randn(1, 1, 32))[0].with_state(state)
    )
    if name != "inkling":  # whose numbers come from the tokens of the queries
        step = posenc.attention(q[:, :, 5:], k, v, last)  # one query after all keys sees them all
        torch.testing.assert_close(step, whole[:, :, 5:], rtol=0, atol=1e-5)


def test_fox_of_more_queries_than_keys() -> None:
    """Rows that stand before every key see none, in any order given, and the refusal says what is missing."""
    fox = posenc.FoX(32, 4).double()
    x = torch.randn(1, 6, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q, k, v = torch.randn(3, 1, 4, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    placed = fox.at(arange(6), arange(4), dtype=torch.float64).with_state(fox.gates(x[:, :4]))
    with pytest.raises(InvalidArgument, match=r"more tokens \(6\) than k \(4\)"):
        posenc.attention(q, k[:, :, :4], v[:, :, :4], placed, causal=True)
    mask = posenc.Mask(causal=True, q_order=arange(6), k_order=arange(4))
    got = posenc.attention(q, k[:, :, :4], v[:, :, :4], placed, mask)
    later = fox.gates(x).cumsum(-1)[..., :4]
    upto = torch.cat((later, later[..., 3:].expand(-1, -1, 2)), -1)  # gates of tokens without a key count nothing
    dense = q @ k[:, :, :4].mT / math.sqrt(8) + upto[..., :, None] - later[..., None, :]
    hidden = torch.arange(4) > torch.arange(6)[:, None]
    want = dense.masked_fill(hidden, -math.inf).softmax(-1) @ v[:, :, :4]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
