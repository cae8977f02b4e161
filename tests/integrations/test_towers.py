"""Towers that see or hear keep their own positions while the language model beside them has ours."""

from typing import Any

import pytest
import torch

from integrations.small import answers, own, small
from posenc.encodings import NoPE
from posenc.integrations.huggingface import patched

IDS = {"image": "image_token_id", "audio": "audio_token_id"}


def text(model: Any, kind: str, count: int) -> torch.Tensor:
    """A text with a picture or a sound of so many tokens in it."""
    return torch.tensor([[5, 6, *[getattr(model.config, IDS[kind])] * count, 7, 8, 9]])


def mistral3(model: Any) -> dict[str, torch.Tensor]:
    side = 2 * model.config.vision_config.patch_size * model.config.spatial_merge_size
    pixels = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0))
    sizes = torch.tensor([[side, side]])
    return {"input_ids": text(model, "image", 4), "pixel_values": pixels, "image_sizes": sizes}


def video_llama_3(model: Any) -> dict[str, torch.Tensor]:
    width = 3 * model.config.vision_config.patch_size**2
    patches = torch.randn(16, width, generator=torch.Generator().manual_seed(0))
    grid = {"image_grid_thw": torch.tensor([[1, 4, 4]]), "image_merge_sizes": torch.tensor([2])}
    return {"input_ids": text(model, "image", 4), "pixel_values": patches, **grid}


def glmasr(model: Any) -> dict[str, torch.Tensor]:
    sound = torch.randn(1, model.config.audio_config.num_mel_bins, 64, generator=torch.Generator().manual_seed(0))
    mask = {"input_features_mask": torch.ones(1, 64, dtype=torch.int64)}
    return {"input_ids": text(model, "audio", 8), "input_features": sound, **mask}


def lighton_ocr(model: Any) -> dict[str, torch.Tensor]:
    return mistral3(model)


def llava(model: Any) -> dict[str, torch.Tensor]:
    """CLIP's tower, which adds a table."""
    side, patch = model.config.vision_config.image_size, model.config.vision_config.patch_size
    pixels = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0))
    return {"input_ids": text(model, "image", (side // patch) ** 2), "pixel_values": pixels}


def qwen2_audio(model: Any) -> dict[str, torch.Tensor]:
    """Whisper's tower, whose table is fixed."""
    audio = model.config.audio_config
    length = audio.max_source_positions
    sound = torch.randn(1, audio.num_mel_bins, 2 * length, generator=torch.Generator().manual_seed(0))
    mask = {"feature_attention_mask": torch.ones(1, 2 * length, dtype=torch.int64)}
    return {"input_ids": text(model, "audio", length // 2), "input_features": sound, **mask}


GIVEN = [mistral3, video_llama_3, glmasr, lighton_ocr, llava, pytest.param(qwen2_audio, marks=pytest.mark.slow)]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.__name__)
def test_a_tower_keeps_its_own_positions(given: Any) -> None:
    model = small(given.__name__)
    call = given(model)
    before = answers(model, **call)
    with patched(model, own(model, 64)):
        assert torch.equal(answers(model, **call), before)
    with patched(model, dict.fromkeys(own(model, 64), NoPE())):
        assert not torch.equal(answers(model, **call), before)
    assert torch.equal(answers(model, **call), before)
