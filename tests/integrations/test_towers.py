"""Models that see or hear: the language model has our positions while its towers keep their own."""

from typing import Any

import pytest
import torch

from integrations.feeding import Feed, feeds
from integrations.small import answers, own, small
from posenc.encodings import NoPE
from posenc.integrations.huggingface import patched

SAMPLE = ("glmasr", "mistral3", "qwen3_vl")
SEEING = (
    "cohere2_vision cosmos3_edge cosmos3_omni deepseek_vl ernie4_5_vl_moe exaone4_5 glm46v glm4v glm4v_moe glm_ocr "
    "glmga got_ocr2 hyperclovax_vision_v2 janus lfm2_vl lfm3_vl lighton_ocr minimax_m3_vl mistral3 paddleocr_vl "
    "qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe qwen3_vl qwen3_vl_moe step3p7 video_llama_3 video_llava"
)
HEARING = "audioflamingo3 glmasr"
EVERY = [
    pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.slow) for name in f"{SEEING} {HEARING}".split()
]
SHORT, LONG = 5, 8
"""Tokens of text around a picture or a sound."""


def fed(family: str) -> tuple[Any, Feed]:
    model = small(family)
    return model, next(feeds(model))


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """The same angles in sums of another order, some units of 2^-23 a layer."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("family", EVERY)
def test_the_same_answers_with_a_picture_or_a_sound(family: str) -> None:
    model, feed = fed(family)
    for texts in ([LONG], [LONG, SHORT]):
        call = feed.call(model, texts)
        seen = call.get("attention_mask", torch.ones_like(call["input_ids"])).bool()
        before = answers(model, **call)
        encodings = own(model, call["input_ids"].shape[1])
        with patched(model, encodings):
            close(answers(model, **call)[seen], before[seen])
        with patched(model, dict.fromkeys(encodings, NoPE())):
            assert (answers(model, **call) - before)[seen].abs().max() > 1e-3 * before.abs().max()
        assert torch.equal(answers(model, **call), before)


@pytest.mark.parametrize("family", EVERY)
def test_the_same_answers_to_what_follows_it(family: str) -> None:
    """The picture or the sound is in the cache by then."""
    model, feed = fed(family)
    call, rest = feed.call(model, [LONG]), torch.tensor([[201, 202, 203]])

    def last() -> torch.Tensor:
        with torch.no_grad():
            first = model(**call, use_cache=True)
            found: torch.Tensor = model(input_ids=rest, past_key_values=first.past_key_values, use_cache=True)[0]
        return found.float()

    before = last()
    with patched(model, own(model, call["input_ids"].shape[1] + 3)):
        close(last(), before)
    assert torch.equal(last(), before)
