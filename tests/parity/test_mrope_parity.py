"""M-RoPE against transformers: Qwen2-VL's sections, cut, and Qwen3-VL's, dealt out in turn."""

from functools import partial

import pytest
import torch
from torch import Tensor

from posenc import Rotary
from posenc.encodings.axes import AxisMap, chunked, strided

pytestmark = pytest.mark.usefixtures("recent_transformers")


def qwen2(sections: list[int]):
    from transformers.models.qwen2_vl import modeling_qwen2_vl as theirs
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig

    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    config = Qwen2VLTextConfig(hidden_size=2 * sum(sections), num_attention_heads=1, rope_parameters=rope)
    # Until 5.5 tables hold every axis, and sections are cut where q and k are turned.
    apply = getattr(theirs, "apply_rotary_pos_emb", None)
    apply = apply or partial(theirs.apply_multimodal_rotary_pos_emb, mrope_section=sections)
    return theirs.Qwen2VLRotaryEmbedding(config), apply


def qwen3(sections: list[int]):
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    config = Qwen3VLTextConfig(head_dim=2 * sum(sections), rope_parameters=rope)
    return Qwen3VLTextRotaryEmbedding(config), apply_rotary_pos_emb


CASES = [
    pytest.param(qwen2, chunked(16, 24, 24), id="Qwen2-VL"),
    pytest.param(qwen3, strided(24, 20, 20), id="Qwen3-VL"),
    pytest.param(qwen3, strided(11, 11, 10), id="Qwen3.5"),
]


def random_ids() -> Tensor:
    """Three axes, two sequences, a thousand tokens."""
    return torch.randint(10_000, (3, 2, 1000))


def their_tables(embedding, apply, ids: Tensor, D: int) -> tuple[Tensor, ...]:
    """cos and sin of every pair: what the vector (1, 0) of each is turned to, which rounds nothing."""
    ones = torch.zeros(*ids.shape[1:], D).unsqueeze(1)
    ones[..., : D // 2] = 1
    return apply(ones, ones, *embedding(ones, ids))[0].split(D // 2, dim=-1)


def sections(made: AxisMap) -> list[int]:
    return [made.axis_of_pair.count(axis) for axis in range(3)]


@pytest.mark.parametrize(("theirs", "made"), CASES)
def test_float32_phases_are_theirs_bit_for_bit(theirs, made: AxisMap) -> None:
    ids, D = random_ids(), 2 * made.pairs
    want = their_tables(*theirs(sections(made)), ids, D)
    ours = Rotary(D, pairing="half", base=1e6, axes=made, phases="float32").tables(ids)
    torch.testing.assert_close(ours, want, rtol=0, atol=0)


@pytest.mark.parametrize(("theirs", "made"), CASES)
def test_exact_phases_are_theirs_but_for_their_rounding(theirs, made: AxisMap) -> None:
    """Their frequencies are off by 2^-23·(1 + ln base) in relation, their angles by one rounding more."""
    ids, D = random_ids(), 2 * made.pairs
    want = their_tables(*theirs(sections(made)), ids, D)
    rotary = Rotary(D, pairing="half", base=1e6, axes=made)
    frequencies = torch.tensor([float(f) for f in rotary.clock.frequencies.exact], dtype=torch.float64)
    angles = ids.movedim(0, -1)[..., list(made.axis_of_pair)] * frequencies
    bound = (angles * 2.0**-23 * 16 + 2.0**-23)[:, None]
    for mine, their in zip(rotary.tables(ids), want, strict=True):
        assert ((mine - their).abs() <= bound).all()
