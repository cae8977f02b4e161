"""vLLM and mlx-lm turn by what is written for them as the model does: their own code, run on a CPU."""

from typing import Any

import pytest

from posenc.scaling import NTK, Default, Linear, Llama3, LongRoPE, Proportional, YaRN
from support.served import (
    BASE,
    DEEPSEEK,
    LENGTH,
    PARTIAL,
    PARTS,
    PLAIN,
    PROGRAMS,
    SCALINGS,
    SECOND,
    SIZES,
    STATED,
    VLLM,
    YARN,
    Case,
    ask_vllm,
    by_mlx,
    of_mlx,
    of_vllm,
    record,
    recorded,
)

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not PROGRAMS.exists(), reason="no other programs here; type: make programs"),
]
LONG = LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0)
PLAIN_SCHEDULES = [Case(PLAIN, scaling, 4 * LENGTH) for scaling in SCALINGS]
THINKER = {"model_type": "qwen3_omni_moe_text", **SIZES, "head_dim": 128}
SECTIONS = {"rope_type": "default", "rope_theta": BASE, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
TALKING = {
    "model_type": "qwen3_omni_moe",
    "thinker_config": {
        "model_type": "qwen3_omni_moe_thinker",
        "text_config": {**THINKER, "rope_parameters": SECTIONS},
    },
}
FACTORS = ("attn_factor", "attention_factor")
CASES = [
    *PLAIN_SCHEDULES,
    *(Case(PLAIN, scaling) for scaling in (Linear(4), Linear(1.3), YaRN(4, LENGTH), YaRN(1.3, LENGTH))),
    Case(PLAIN, LONG, 3 * LENGTH),  # another length than factor × original
    Case(PARTIAL, LongRoPE((1.0,) * 4, (2.0,) * 4, LENGTH, 4.0), 3 * LENGTH),
    Case(PLAIN, Proportional(0.5)),
    *(Case({**PLAIN, "rope_parameters": stated}) for stated in (YARN, STATED, {**YARN, "attention_factor": 1.0})),
    *(Case(PARTIAL, scaling) for scaling in (Default(), Linear(4), YaRN(4, LENGTH), Llama3(8.0, LENGTH))),
    *(Case(PARTS, scaling, 4 * LENGTH) for scaling in SCALINGS),
    Case(PARTS),
    *(Case(TALKING, scaling, positions=(0, 1, 2, 60)) for scaling in (None, NTK(4.0))),
    *(Case({**DEEPSEEK, "rope_parameters": stated}) for stated in (SECOND, STATED, YARN)),
    *(
        Case({**DEEPSEEK, "rope_parameters": SECOND}, scaling)
        for scaling in (YaRN(2, LENGTH), YaRN(2, LENGTH, attention_factor=1.0), YaRN(2, LENGTH, beta_fast=8.0))
    ),
    Case({**DEEPSEEK, "rope_theta": BASE}, YaRN(4, LENGTH, attention_factor=1.5)),
]


@pytest.mark.parametrize("version", VLLM)
def test_vllm_turns_as_meant_and_admits_what_is_meant(version: str) -> None:
    for case, answer in zip(CASES, of_vllm(version, CASES), strict=True):
        case.check_answer(answer)
        assert case.served - 4 < answer["admitted"] <= answer["rows"], case
        if not isinstance(case.now, YaRN):  # of which old versions admit factor × original whatever is said
            assert answer["admitted"] <= case.served


@pytest.mark.parametrize(("version", "reads", "ignores"), [(VLLM[0], *FACTORS), (VLLM[1], *FACTORS[::-1])])
def test_each_vllm_reads_one_of_the_two_factors(version: str, reads: str, ignores: str) -> None:
    scaling = YaRN(4, LENGTH, attention_factor=1.0)
    changes: list[dict[str, Any]] = [{}, {ignores: 3.0}, {reads: 3.0}]
    answers = of_vllm(version, [Case(PLAIN, scaling, change=change) for change in changes])
    right, ignored, wrong = (answer["tables"][0][0] for answer in answers)
    assert (right, ignored) == (pytest.approx(1.0), right)
    assert wrong > 2.9


def test_vllm_turns_scaled_sections_otherwise() -> None:
    """Why they are refused: the ends of YaRN's ramp are those of four times the length."""
    asked, wanted = Case(TALKING).vllm(), Case({**THINKER, "rope_parameters": SECTIONS}, YaRN(4, LENGTH))
    asked["overrides"]["thinker_config"]["text_config"]["rope_parameters"] |= YARN
    (answer,) = ask_vllm(VLLM[1], [asked])
    with pytest.raises(AssertionError, match="too far"):
        wanted.check(answer["tables"])
    Case({**PLAIN, "head_dim": 128}, YaRN(4, 4 * LENGTH, attention_factor=wanted.scaling.scale)).check(
        answer["tables"]
    )


def test_mlx_turns_as_meant() -> None:
    plain = [case for case in PLAIN_SCHEDULES if by_mlx(case.scaling)]
    deepseek = [case for case in CASES if case.read.model_type == "deepseek_v3"]
    for case, answer in zip(plain + deepseek, of_mlx(plain + deepseek), strict=True):
        case.check_answer(answer)


def test_the_records_are_what_the_programs_say() -> None:
    for name, answers in record().items():
        assert answers == recorded()[name]
