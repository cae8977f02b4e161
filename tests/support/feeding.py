"""Builds inputs with a picture or a sound for any small model with a tower, from the names of its arguments."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from tools.walk_type import merged
from torch import Tensor
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.integrations.huggingface.language_model import AROUND
from posenc.integrations.huggingface.measuring.inputs import PICTURES, SOUNDS, Form, forms
from support.small_models import small

TOWERS = {
    "image": (("vision_config", "image_config"), PICTURES),
    "audio": (("audio_config", "encoder_config"), SOUNDS),
}
"""The keys that may hold the config of a tower, and the possible names of its input."""
SAID = (
    *("language_model_outputs", "last_hidden_state", "logits", "logits_per_text"),
    *("text_embeddings", "text_audio_embeds", "text_embeds", "embeddings", "text_features"),
    "pred_logits",
)
"""The output fields that may hold a model's answer, sorted by closeness to the text."""
TEXT = range(200, 300)
"""Token ids without a special meaning in any small model."""
SHORTEST = 3
"""The number of text tokens in the first trial of a feed."""

ALIKE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"mm_tokens_per_image": 4}, "gemma3 t5gemma2_encoder"),
    ({"mm_tokens_per_image": 4, "yes_token_index": 5, "no_token_index": 6}, "shieldgemma2"),
    ({"vision_config": {"model_type": "gemma4_vision"}}, "gemma4 embedding_gemma2"),
    ({"image_grid_pinpoints": [[64, 128], [128, 64]]}, "llava_next llava_next_video llava_onevision"),
    ({"vision_feature_layers": [-2, -1]}, "vipllava"),
    ({"vision_config": {"patch_size": 2}}, "smolvlm modernvbert"),  # the patch size divides the tokens of a picture
    ({"vlm_config": {"vision_config": {"patch_size": 2}}}, "colmodernvbert"),
    ({"image_token_id": 70}, "minicpm_ocr minicpmv4_6 minicpmv4_7"),
    ({"out_hidden_size": 1536}, "muse_glimmer muse_spark"),
    ({"projector_config": {"encoder_hidden_size": 1536}}, "granite_speech granite_speech_plus"),
    (
        {
            "image_token_id": 70,
            "video_token_id": 70,
            "text_config": {"word_embed_proj_dim": 256},
            "qformer_config": {"encoder_hidden_size": 1056},
        },
        "blip-2 instructblip instructblipvideo",
    ),
    ({"vision_start_token_id": 76, "audio_start_token_id": 77}, "qwen2_5_omni_thinker qwen3_omni_moe_thinker"),
    ({"text_config": {"projection_size": 256}}, "siglip siglip2"),
    ({"projector_patch_to_query_dict": {"4": 4, "4900": 16}}, "aria"),
    ({"vision_config": {"num_attention_heads": 16}}, "aya_vision"),
    ({"audio_config": {"hidden_size": 192}}, "clap"),
    ({"vlm_config": {"projection_dim": 1024}}, "colpali"),
    ({"projection_dim": 1024}, "paligemma"),
    ({"high_res_vision_config": {"global_attn_indexes": [0]}}, "deepseek_vl_hybrid"),
    ({"vision_config": {"projection_dim": 256}}, "florence2"),
    ({"projection_hidden_size": 288}, "kimi_k25"),
    (
        {
            "vision_config": {
                "hidden_size": 64,
                "vision_output_dim": 64,
                "projector_input_dim": 64,
                "projector_output_dim": 64,
            }
        },
        "llama4",
    ),
    (
        {
            "text_config": {"cross_attention_layers": [1]},
            "vision_config": {"intermediate_layers_indices": [0, 1], "vision_output_dim": 960},
        },
        "mllama",
    ),
    ({"hidden_size": 512}, "ovis2"),
    ({"audio_config": {"max_source_positions": 50, "output_dim": 512}}, "qwen3_asr"),
    ({"vision_config": {"fpn_hidden_size": 128}}, "sam3"),
    ({"vision_config": {"sam_config": {"downsample_channels": [128, 256]}}}, "unlimited_ocr"),
    ({"vision_config": {"pooler_output_size": 256}}, "vision-text-dual-encoder"),
    ({"audio_token_id": 70}, "voxtral"),
    ({"vision_config": {"mit_hidden_size": 1536}}, "xclip"),
)
"""Further settings that the towers of small models need: dependent sizes, tokens, and types of towers."""
LACKS = {name: lacks for lacks, names in ALIKE for name in names.split()}
QUESTION = {"qformer_input_ids": (8,)}
BESIDE: dict[str, dict[str, tuple[int, ...]]] = {
    "deepseek_vl_hybrid": {"high_res_pixel_values": (3, 64, 64)},
    "moss_transcribe_diarize": {"padding_mask": (64,)},
    "instructblip": QUESTION,
    "instructblipvideo": QUESTION,
    "clap": {"is_longer": (1,)},
    "mllama": {"aspect_ratio_ids": (1,), "aspect_ratio_mask": (1, 4)},
}
"""Additional arguments of some models, and the shape of each in one row."""
COUNTS = {
    **dict.fromkeys(("qwen2_audio", "musicflamingo", "blip-2", "instructblip"), 32),
    "shieldgemma2": 4,
    "instructblipvideo": 32,
    "mllama": 1,
}
"""The number of tokens for a picture or a sound, for models that do not return the features of their input."""


FAILING = {("llama4", "5.24.0"): "its own forward asks the language model for image_outputs"}
"""Models that fail on every text with a picture, by family and release, with the reason."""


class Feed:
    """A picture or a sound for a model, and the tokens that stand for this input in a text.

    Args:
        kind: ``"image"`` or ``"audio"``.
        form: the form of the model's input.
        count: the number of tokens in the text; 0 if the input is passed only beside the text.
        token: the id of these tokens.
    """

    def __init__(self, kind: str, form: Form, count: int, token: int) -> None:
        self.kind, self.form, self.count, self.token = kind, form, count, token

    def call(self, model: Any, texts: list[int]) -> dict[str, Tensor]:
        """Return a row with a picture or sound per number of text tokens in ``texts``, left-padded if short."""
        ids, mask = [], []
        for number, length in enumerate(texts):
            text = [TEXT[(7 * number + i) % len(TEXT)] for i in range(length)]
            row = [*text[:2], *[self.token] * self.count, *text[2:]]
            empty = max(texts) - length
            ids.append([TEXT[0]] * empty + row)
            mask.append([0] * empty + [1] * len(row))
        tokens = torch.tensor(ids)
        found = {"input_ids": tokens, **_given(model, self.form, len(texts))}
        if not all(map(all, mask)):
            found["attention_mask"] = torch.tensor(mask)
        marked = (tokens == self.token).long()
        beside = {"mm_token_type_ids": marked, "decoder_input_ids": tokens[:, :SHORTEST]}
        return found | {key: value for key, value in beside.items() if key in takes(model)}


def answers(model: Any, **given: Any) -> Tensor:
    """Return a model's answer to a text, for every token if possible."""
    with torch.no_grad():
        found = model(**given)
    found = _stated(found, *SAID)
    return (found if isinstance(found, Tensor) else _stated(found, *SAID)).float()


def fed(family: str) -> tuple[Any, Feed]:
    """Return a small model and the first picture or sound that this model accepts."""
    lacks = LACKS.get(family, {})
    towers = {key: one for key, one in lacks.items() if isinstance(one, dict) and "model_type" in one}
    whole = {key: merged(CONFIG_MAPPING[one["model_type"]]().to_dict(), one) for key, one in towers.items()}
    if why := FAILING.get((family, transformers.__version__)):
        pytest.skip(f"transformers {transformers.__version__}: {why}")
    model = small(family, **{**lacks, **whole})
    return model, next(feeds(model))


def feeds(model: Any) -> Iterator[Feed]:
    """Yield the feeds of a model, which have the first form on which the model runs, for every tower."""
    whole = next((getattr(model.config, key) for key in AROUND if hasattr(model.config, key)), model.config)
    for kind, (keys, names) in TOWERS.items():
        config = _stated(whole, *keys)
        token = _stated(whole, f"{kind}_token_id", f"{kind}_token_index")
        for form in _every(model, config, names):
            try:
                feed = Feed(kind, form, 0 if token is None else _count(model, kind, form), token or 0)
                with torch.no_grad():
                    model(**feed.call(model, [SHORTEST, SHORTEST]))
            except Exception:  # a model may raise anything for a wrong shape
                continue
            yield feed
            break


def _every(model: Any, config: Any, names: tuple[str, ...]) -> Iterator[Form]:
    """Yield all forms of a tower's input: unchanged, without other arguments, in one row, in lists, or in tiles."""
    for form in () if config is None else forms(model, config, names):
        yield form
        yield replace(form, arguments=_nothing)
        if form.cells and not form.alone:
            yield replace(form, make=lambda *how, form=form: torch.cat([*form.make(*how)], -1)[None])
        if form.alone:
            yield replace(form, make=lambda rows, *how, form=form: form.make(rows, *how).unflatten(0, (rows, -1)))
        for lists in ((1,), (2,), (3,), (1, 4)) if form.cells else ((1,),):

            def listed(*how: Any, form: Form = form, lists: tuple[int, ...] = lists) -> Tensor:
                one = form.make(*how)
                every = one.view(len(one), *(1 for _ in lists), *one.shape[1:]).expand(-1, *lists, *one.shape[1:])
                return every.contiguous()  # older models call view on it

            def masked(rows: int, lists: tuple[int, ...] = lists) -> dict[str, Tensor]:
                return {"pixel_attention_mask": torch.ones(rows, *lists, dtype=torch.bool)}

            yield from (
                replace(form, make=listed, arguments=arguments) for arguments in (form.arguments, _nothing, masked)
            )


def _nothing(rows: int) -> dict[str, Tensor]:
    return {}


def _given(model: Any, form: Form, rows: int) -> dict[str, Tensor]:
    beside = BESIDE.get(model.config.model_type, {})
    return form.given(rows, False, 0) | {name: _ones(name, rows, *shape) for name, shape in beside.items()}


def _ones(name: str, *shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.float32 if name.endswith("values") else torch.int64)


def _count(model: Any, kind: str, form: Form) -> int:
    """Return the number of tokens for a picture or sound, from the features that the model returns."""
    if model.config.model_type in COUNTS:
        return COUNTS[model.config.model_type]
    ask = f"get_{kind}_features"
    inner = next(module for module in model.modules() if hasattr(module, ask))
    wanted = {*inspect.signature(getattr(inner, ask)).parameters}
    given = {key: getattr(inner.config, key) for key in wanted if hasattr(inner.config, key)}
    given |= _given(model, form, 1)
    with torch.no_grad():
        found = getattr(inner, ask)(**{key: value for key, value in given.items() if key in wanted})
    found = (
        found if isinstance(found, (Tensor, list, tuple)) else _stated(found, "pooler_output", "last_hidden_state")
    )
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return sum(one.numel() for one in found) // found[0].shape[-1]


def _stated(config: Any, *names: str) -> Any:
    return next((one for name in names if (one := getattr(config, name, None)) is not None), None)


def takes(model: Any) -> set[str]:
    """Return the names of the arguments of a model's ``forward``."""
    return {*inspect.signature(model.forward).parameters}
