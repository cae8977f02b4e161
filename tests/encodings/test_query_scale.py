"""The scale of queries by position: every rule at its steps, float32 under any type, and attention."""

import math

import pytest
import torch

import posenc
from posenc import Mask, NoPE, QueryScale, Rotary, Stack, attention, scores
from posenc.encodings.query_scale import Rule
from posenc.positions import arange
from support.attending import same_gradients

STEPS = {
    "llama4": {0: 1.0, 8190: 1.0, 8191: 1.0693147, 1048575: 1.4859812},
    "ministral3": {0: 1.0, 8191: 1.0, 8192: 1.0693147, 16383: 1.0693147, 16384: 1.1098612},
    "beam": {0: 1.0000488, 2047: 1.0717735, 131_071: 1.5180684},
    "inkling": {0: 1.0, 127_999: 1.0, 128_000: 1.0000008, 1_048_575: 1.2103158},
}
"""Of the released models: float64 from the formulas in the encoding's first lines."""
FLOORS = {"beam": 2048, "inkling": 128_000}


@pytest.mark.parametrize("rule", STEPS)
def test_factors_at_their_steps(rule: Rule) -> None:
    got = QueryScale(rule=rule, floor=FLOORS.get(rule, 8192)).factors(torch.tensor(list(STEPS[rule])))
    assert got.tolist() == pytest.approx(list(STEPS[rule].values()), abs=1.2e-7)


@pytest.mark.parametrize("rule", STEPS)
def test_steep_factors_are_rounded_once(rule: Rule) -> None:
    """exp would take a rounding of its argument 100 times over."""
    at, amount = torch.tensor([5, 1000, 2**31 - 2]), 4.0
    formulas = {
        "llama4": lambda p: 1 + amount * math.log1p((p + 1) // 7),
        "ministral3": lambda p: 1 + amount * math.log1p(p // 7),
        "beam": lambda p: (1 + (p + 1) / 7) ** amount,
        "inkling": lambda p: 1 + amount * math.log(max(1, (p + 1) / 7)),
    }
    want = torch.tensor([formulas[rule](p) for p in at.tolist()], dtype=torch.float64)
    got = QueryScale(rule=rule, floor=7, amount=amount).factors(at)
    assert ((got - want).abs() <= 1.001 * 2**-24 * want).all()


def test_scores_are_multiplied_and_a_bias_is_not() -> None:
    at, (q, k) = arange(5, offset=8189), torch.randn(2, 1, 2, 5, 4, dtype=torch.float64)
    got, alibi = scores(q, k, QueryScale().at(at, dtype=torch.float64)), posenc.ALiBi(2)
    both = scores(q, k, Stack(alibi, QueryScale()).at(at))
    torch.testing.assert_close(both - alibi.at(at).bias.rows(0, 5, 5), got, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_16_bit_model_has_float32_factors(dtype: torch.dtype) -> None:
    """In bf16 the first step would be 1.0703."""
    model = Stack(Rotary(8, pairing="half"), QueryScale()).to(dtype)
    with torch.autocast("cpu"):
        scale = model.at(arange(3, offset=8190)).scale
    assert scale.dtype == torch.float32
    assert scale.flatten().tolist() == pytest.approx([1.0, 1.0693147, 1.0693147], abs=6e-8)


def test_far_positions_step_where_they_should() -> None:
    """Where float32 cannot tell positions apart: the step is counted in integers."""
    step = 8192 * 262_143 - 1
    before, after = QueryScale().factors(torch.tensor([step - 1, step]), torch.float64).tolist()
    assert before == pytest.approx(1 + 0.1 * torch.tensor(262_143.0).double().log().item(), abs=1e-14)
    assert after > before


def test_attention_equals_scaled_queries() -> None:
    """Values and gradients, also along a masked path."""
    at, (q, k, v) = arange(40), torch.randn(3, 1, 2, 40, 8, dtype=torch.float64).requires_grad_()
    encoding = QueryScale(floor=7)
    factors = encoding.factors(at, torch.float64)[:, None]
    for mask in (Mask(causal=True), Mask(causal=True, window=9), Mask(key_mask=torch.rand(1, 40) > 0.3)):
        got = attention(q, k, v, encoding.at(at, dtype=torch.float64), mask)
        want = attention(q * factors, k, v, NoPE().at(at), mask)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-14)
        same_gradients(got, want, (q,), 1e-13)
