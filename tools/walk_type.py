"""Compare ``read`` with a measurement for one model type, with default, rebased, scaled and published configs."""

import copy
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
import transformers
from packaging.version import Version
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read, write
from posenc.integrations.huggingface.config_class import class_keys
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.family import Family
from posenc.integrations.huggingface.language_model import text_config
from posenc.integrations.huggingface.measuring import Measured, differences, measure
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.schema import KEYS
from posenc.scaling import YaRN

BASE = re.compile(r"(rope_|rotary_)?theta$|base_freq$|rotary_emb_base$")
EQUAL, DIFFERENT, MEASURED = "read and equal", "read and different", "measured only"
LATER = "corrected since"
PUBLISHED = Path(__file__).resolve().parents[1] / "tests" / "data" / "published_configs.jsonl"
"""Published configs, one per line; the folder ``configs`` beside it has more, as files."""
NONE, UNBUILT = "has no positions", "cannot be built"
SCALED, NARROW = "YaRN with mscale and mscale_all_dim", "a window of 4 tokens"
"""The names of the configs that are tested for every type that rotates, and for every type with a window size."""
THIRDS = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 17_000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [8, 12, 12],
    }
}
MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("glm4v_text", "glm_image_text"), THIRDS),
    **{name: {"text_config": THIRDS} for name in ("glm4v", "glm46v", "glm_image", "glmga")},
    "glm4v_moe_text": {**THIRDS, "head_dim": 128},
    "glm4v_moe": {"text_config": {**THIRDS, "head_dim": 128}},
    "dbrx": {"attn_config": {"rope_theta": 17_000.0}},
    "deepseek_ocr2_text": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_thinker": {"text_config": {"head_dim": 128}},
    "step3p5": {"sliding_window": 512},
    "step3p7": {"text_config": {"sliding_window": 512}},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "bamba": {"attn_layer_indices": [1]},
    "deepseek_v2": {"num_experts_per_tok": 2, "topk_group": 1, "n_group": 1},
    "deberta-v2": {
        "relative_attention": True,
        "position_biased_input": False,
        "position_buckets": 256,
        "pos_att_type": "p2c|c2p",
    },
    "esm": {"vocab_size": 64, "pad_token_id": 1, "mask_token_id": 2},
    "glm4_moe": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 48},
    "granitemoehybrid": {
        "layer_types": ["attention", "mamba"] * 16,
        "position_embedding_type": "rope",
        "rope_parameters": {"rope_type": "default", "rope_theta": 17_000.0},
    },
}
"""The keys that a default config lacks for a model with positions, and that every released config has."""


SPELT = {
    "length": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "heads": ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads"),
    "width": ("hidden_size", "d_model", "dim", "n_embd", "embed_dim"),
    "layers": ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "encoder_layers"),
}
"""The keys under which configs may store what every family needs, by the field of a family's entry."""


def walked(name: str) -> dict[str, object]:
    """Return a type's class, the reason, and what was measured."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    found: dict[str, object] = {"type": name}
    try:
        config = CONFIG_MAPPING[name]()
        config = type(config).from_dict(completed(name, rebased(copy.deepcopy(config.to_dict()))))
        measured = measure(config)
    except Exception as error:
        return found | {"class": UNBUILT, "why": _reason(error)}
    found["measured"] = measured.describe()
    if not measured.layers:
        return found | {
            "class": NONE if not measured.tables else MEASURED,
            "why": "no attention over its tokens was seen",
        }
    try:
        positions = read(measured.config)
        off = differences(measured, positions)
    except InvalidArgument as error:
        found |= {"why": _reason(error), "turns": any(layer.rotation for layer in measured.layers)}
        if name not in FAMILIES:
            found["family"] = _family(name, measured)
        layers = measured.table().layers.values()
        has_positions = any(layer.encoding != "nope" or layer.added_table for layer in layers)
        return found | {"class": MEASURED if has_positions else NONE}
    except Exception as error:
        off, positions = [_reason(error)], None
    found["turns"] = any(layer.rotation for layer in measured.layers)
    late = positions is not None and corrected_since(positions)
    if positions is not None and not off:
        found["more"] = {kind: answer(variant) for kind, variant in variants(name, config, positions)}
        off = [f"{kind}: {said}" for kind, said in found["more"].items() if said.startswith("different")]
    return found | {"class": (LATER if late else DIFFERENT) if off else EQUAL, "why": "; ".join(off[:2])}


def variants(name: str, config: Any, positions: ModelPositions) -> Iterator[tuple[str, Any]]:
    """Yield other configs of a type by name: with YaRN, with a window, and the published ones."""
    length = positions.original_length
    if positions.rotary_recipes and positions.layout is None:
        yarn = YaRN(4, length, mscale=1.5, mscale_all_dim=0.5)
        yield SCALED, lambda: _changed(config, positions.path, write(positions, yarn, max_length=4 * length))
    if "sliding_window" in class_keys(positions.model_type):
        yield NARROW, lambda: _changed(config, positions.path, {"sliding_window": 4})
    published = [*map(json.loads, PUBLISHED.read_text("utf-8").splitlines())]
    for path in sorted(PUBLISHED.with_name("configs").glob("*.json")):
        published.append({"name": path.stem, "config": json.loads(path.read_text("utf-8"))})
    for one in published:
        if one["config"].get("model_type") == name and "as_type" not in one:
            yield one["name"], lambda one=one: type(config).from_dict(copy.deepcopy(one["config"]))


def answer(make: Any) -> str:
    """Return whether the measurement of a config agrees with what is read from it, and if not, why."""
    try:
        measured = measure(make())
        off = differences(measured, read(measured.config))
    except Exception as error:
        return f"not compared: {_reason(error)}"
    return f"different: {off[0]}" if off else "equal"


def _changed(config: Any, path: Sequence[str], more: Mapping[str, Any]) -> Any:
    """Return the config with other values in the part of its language model, which is under ``path``."""
    whole = copy.deepcopy(config.to_dict())
    inner = whole
    for key in path:
        inner = inner[key]
    inner |= more
    return type(config).from_dict(whole)


def corrected_since(positions: ModelPositions) -> bool:
    """Return whether the installed transformers is known to differ from this kind of config."""
    known = FAMILIES[positions.model_type].wrong_up_to_version
    return known is not None and Version(transformers.__version__) <= Version(known)


def completed(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with the keys that a default config of this type lacks; nested configs are merged."""
    return merged(config, MORE.get(name, {}))


def merged(config: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with more keys, also in its nested configs."""
    inner = {key: config[key] for key in more if key.endswith("_config") and isinstance(config.get(key), Mapping)}
    return {**config, **more, **{key: merged(value, more[key]) for key, value in inner.items()}}


def rebased(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with every base multiplied by 1.7, to reveal a base that is hard-coded."""
    made: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            made[key] = rebased(value)
        elif BASE.search(str(key)) and isinstance(value, (int, float)) and value > 1:
            made[key] = value * 1.7
        else:
            made[key] = value
    return made


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}"[:300]


def _family(name: str, measured: Measured) -> list[str] | None:
    """Return lines for families.toml, from other families' facts, with which ``read`` agrees with ``measured``."""
    common = (("partial", "partial_rotary_factor"), ("pairing", "interleaved"), ("head_dim", "qk_rope_head_dim"))
    candidates: dict[str, tuple[Family, dict[str, str]]] = {repr(Family()): (Family(), {"like": "llama"})}
    for chosen in product((False, True), repeat=len(common)):
        facts = dict(fact for fact, taken in zip(common, chosen, strict=True) if taken)
        family = Family(**facts)  # type: ignore[arg-type]
        candidates.setdefault(repr(family), (family, facts))
    for other, family in FAMILIES.items():
        candidates.setdefault(repr(family), (family, {"like": other}))
    text = getattr(text_config(measured.config), "model_type", name)
    before, keys = FAMILIES.get(text), text_config(measured.config).to_dict()
    spelt = {field: key for field, names in SPELT.items() for key in reversed(names) if key in keys}
    try:
        for as_spelt, (family, facts) in product((False, True), candidates.values()):
            own = {k: key for k, key in spelt.items() if as_spelt and getattr(family, k) not in keys}
            FAMILIES[text] = replace(family, **own, extra=(*family.extra, *KEYS))
            with suppress(Exception):
                if not differences(measured, read(measured.config)):
                    return [f'{text}.{key} = "{value}"' for key, value in (facts | own).items()]
    finally:
        del FAMILIES[text]
        if before is not None:
            FAMILIES[text] = before
    return None
