"""Models that see or hear: the language model has our positions while its towers keep their own."""

from functools import partial
from typing import Any

import pytest
import torch
from tools.walk_type import completed
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.integrations.huggingface.language_model import AROUND, cached
from support.feeding import answers, fed, takes
from support.fuzzing import is_read
from support.small_models import check_swapped, other, own

SAMPLE = ("glmasr", "llava", "mistral3", "qwen3_vl")
SEEING = (
    "aria aya_vision cohere2_vision colmodernvbert colpali colqwen2 cosmos3_edge cosmos3_omni deepseek_vl "
    "deepseek_vl_hybrid embedding_gemma2 ernie4_5_vl_moe exaone4_5 gemma3 gemma4 glm46v glm4v glm4v_moe "
    "glm_ocr glmga got_ocr2 granite_docling hyperclovax_vision_v2 idefics2 idefics3 internvl janus kimi_k25 "
    "lfm2_vl lfm3_vl lighton_ocr llama4 llava llava_next llava_next_video llava_onevision minicpm_ocr "
    "minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 mllama modernvbert muse_glimmer muse_spark ovis2 "
    "paddleocr_vl paligemma qianfan_ocr qwen2_5_omni_thinker qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe "
    "qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe shieldgemma2 smolvlm step3p7 t5gemma2_encoder ultravbert "
    "unlimited_ocr video_llama_3 video_llava vipllava"
)
HEARING = (
    "audioflamingo3 glmasr granite_speech granite_speech_plus moss_transcribe_diarize musicflamingo omniasr "
    "pe_audio qwen2_audio qwen3_asr voxtral"
)
TABLED = (
    "aimv2 align altclip blip-2 bridgetower chinese_clip clap clip clipseg flava florence2 git groupvit "
    "instructblip instructblipvideo metaclip_2 sam3 siglip siglip2 vision-text-dual-encoder xclip"
)
UNFED = {
    **dict.fromkeys(TABLED.split(), "the text has a table, which cannot be replaced"),
    **dict.fromkeys(
        ("fast_vlm", "gemma3n", "pe_audio_video_encoder", "pe_video_encoder", "perception_lm"),
        "the tower is timm's",
    ),
    **dict.fromkeys(
        ("chameleon", "deepseek_ocr2", "granite4_vision", "moonshine_streaming"),
        "the default config builds no model, large or small",
    ),
    **dict.fromkeys(("pp_chart2table", "qwen2_5_omni"), "no model class of its own, but those of its parts"),
    **dict.fromkeys(("dots3_note", "nemo_speechlm", "vibevoice"), "too large even when shrunk"),
    **dict.fromkeys(("glm5_next", "nemotron_h_omni"), "the text has no positions that could be swapped"),
    "emu3": "pictures come as words of a codebook",
    "fun_asr_nano": "sounds come as stacks of frames",
    "gemma4_unified": "no tower: patches go through one map into the text",
    "idefics": "pictures come with a mask of those that each token sees",
    "glm_image": "pictures come with the grids of those that it is to draw",
    "molmo2": "its adapter names layers that a small tower has not",
    "phi4_multimodal": "pictures come with masks of their crops",
    "pi0": "text comes with embedded actions",
}
"""Models that are read and whose small ones are not fed, and why."""
TOWERS = ("vision_config", "audio_config", "image_config", "encoder_config", "vq_config", *AROUND)
FED = [name for name in f"{SEEING} {HEARING}".split() if name in CONFIG_MAPPING]
EVERY = [pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.slow) for name in FED]
SHORT, LONG = 5, 8
"""Tokens of text around a picture or a sound."""


def seen(call: dict[str, torch.Tensor], answer: torch.Tensor) -> torch.Tensor:
    """What is no padding, of an answer to every token; all of another."""
    mask = call.get("attention_mask", torch.ones_like(call["input_ids"])).bool()
    return mask if mask.shape == answer.shape[:2] else torch.ones(answer.shape, dtype=torch.bool)


@pytest.mark.parametrize("family", EVERY)
def test_the_same_answers_with_a_picture_or_a_sound(family: str) -> None:
    model, feed = fed(family)
    for texts in ([LONG], [LONG, SHORT]):
        call = feed.call(model, texts)
        there = seen(call, answers(model, **call))
        ours, others = own(model, call["input_ids"].shape[1]), other(own(model, call["input_ids"].shape[1]))
        check_swapped(model, ours, others, lambda call=call, at=there: answers(model, **call)[at])


def in_parts(model: Any, call: dict[str, torch.Tensor], rest: torch.Tensor) -> torch.Tensor:
    """What a model says of the rest of a text, the picture or the sound being in its cache; skipped without one."""
    with torch.no_grad():
        caches = cached(model(**call)) if "use_cache" in takes(model) else {}
    if not caches:
        pytest.skip("no cache")
    return answers(model, input_ids=rest, **caches, use_cache=True)


@pytest.mark.parametrize("family", EVERY)
def test_the_same_answers_to_what_follows_it(family: str) -> None:
    model, feed = fed(family)
    call, rest = feed.call(model, [LONG]), torch.tensor([[201, 202, 203]])
    ours, others = (own(model, call["input_ids"].shape[1] + 3) for _ in range(2))
    check_swapped(model, ours, other(others), lambda: in_parts(model, call, rest), least=0.0)


def default(name: str) -> dict[str, Any]:
    """The default config of a type, which its class may refuse."""
    return completed(name, CONFIG_MAPPING[name]().to_dict())


@pytest.mark.slow
def test_every_model_with_a_tower_is_fed_or_said_why() -> None:
    towers = {name for name, kind in CONFIG_MAPPING.items() if {*TOWERS} & {*getattr(kind, "sub_configs", ())}}
    assert {name for name in towers if is_read(partial(default, name))} - {*FED} == {*UNFED} & {*CONFIG_MAPPING}
