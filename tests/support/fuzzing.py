"""Fuzzes the config reader with random mutations of configs, as JSON and as objects, against transformers.

Every config has a number, from which the config can be made again after a failure.
"""

import copy
import importlib
import json
import logging
import random
import string
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from posenc.errors import PosencError
from posenc.integrations.huggingface import read, write
from posenc.integrations.huggingface.config import language_part
from posenc.integrations.huggingface.families import FAMILIES, READ_AS
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.patch import _layout
from posenc.integrations.huggingface.schema import KEYS, RARE, ROPE
from posenc.scaling import Linear
from support.places import CONFIGS
from support.tiny_models import MODELS, OLD_SIZES, SIZES

DATA = Path(__file__).parent.parent / "data"
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 8, 1.5, -0.5, 1e30, 10**30, float("nan"), float("inf")),
    *("", "8", "yarn", "default", [], [1], {}, {"rope_type": "linear", "factor": 2.0}, [None], "full_attention"),
)
HERE = tuple(name for name in FAMILIES if name in CONFIG_MAPPING)
"""The families that the installed transformers has."""
LACKING: dict[str, dict[str, Any]] = {
    "deberta-v2": {
        "relative_attention": True,
        "position_biased_input": False,
        "position_buckets": 256,
        "pos_att_type": ["c2p", "p2c"],
    },
    "cohere2_moe": {"first_k_dense_replace": 1},
    **{name: {"head_dim": 128} for name in ("glm4_moe", "glm4v_moe_text", "qwen3_omni_moe_text")},
    **{name: {"head_dim": 64} for name in ("glm4v_text", "glm_image_text")},
}
"""Values from released configs that the reader needs but default configs lack."""
LENGTH = 96
LINEAR = Linear(2)
"""The wrong scaling that the test of this fuzzer uses."""
CLOSE = 2e-5
"""The tolerance. Dynamic scaling computes its base in float32 with errors of a few 2^−24 · ln(base) · length."""
WIDEST = 4096
"""The largest number of channels per head for which tables are compared, because larger tables need much memory."""


@cache
def published() -> dict[str, list[dict[str, Any]]]:
    """Return published configs by the family as which they are read."""
    found = [json.loads(path.read_text()) for path in sorted(CONFIGS.glob("*.json"))]
    found += [json.loads(line)["config"] for line in (DATA / "published_configs.jsonl").read_text().splitlines()]
    by_family: dict[str, list[dict[str, Any]]] = {}
    for config in found:
        kind = str(language_part(config)[0].get("model_type"))
        by_family.setdefault(READ_AS.get(kind, kind), []).append(config)
    return by_family


@cache
def seeds(family: str) -> list[dict[str, Any]]:
    """Return configs of a family: published configs, configs of small models in both spellings, and the class's
    default config, also without ``layer_types`` if the class computes the layer types from other keys.
    """
    found = [*published().get(family, ())]
    for kind, more in MODELS.values():
        if kind != MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(family):
            continue
        sizes = OLD_SIZES if family in ("gptj", "gpt2") else {} if family in ("bloom", "mpt") else SIZES
        made = CONFIG_MAPPING[family](**{**sizes, **more}).to_dict()
        found.append({key: value for key, value in made.items() if key in KEYS or key == "model_type"})
        with suppress(PosencError):
            found.append(write(read(found[-1]), spelling="v4"))
    made = {**CONFIG_MAPPING[family]().to_dict(), **LACKING.get(family, {})}
    known = {*KEYS, *RARE, "model_type"}
    found.append({key: value for key, value in made.items() if key in known})
    if "layer_types" in found[-1]:
        found.append({key: value for key, value in found[-1].items() if key != "layer_types"})
        found[-1] |= {key: 3 for key in FAMILIES[family].extra if key == "full_attention_interval"}
    ordered = (json.loads(json.dumps(seed, sort_keys=True)) for seed in found)  # a class may list keys in any order
    return [seed for seed in ordered if is_read(partial(from_json, seed))]  # no old longrope of Phi-3


def is_read(make: Callable[[], Any]) -> bool:
    """Return whether a config can be made, which its class may refuse, and be read."""
    try:
        return bool(read(make()))
    except Exception:
        return False


def _typo(key: str, rng: random.Random) -> str:
    at, letter = rng.randrange(len(key) or 1), rng.choice(string.ascii_lowercase + "_")
    return rng.choice(
        (
            key[:at] + key[at + 1 :] or "x",
            key[:at] + letter + key[at:],
            key[:at] + letter + key[at + 1 :],
            key.upper(),
            key.replace("_", "-"),
            key.replace("_", ""),
            key.title(),
        )
    )


def _rename(part: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(list(part))
    part[_typo(str(key), rng)] = part.pop(key)


def _drop(part: dict[str, Any], rng: random.Random) -> None:
    part.pop(rng.choice(list(part)))


def _replace(part: dict[str, Any], rng: random.Random) -> None:
    part[rng.choice(list(part))] = copy.deepcopy(rng.choice(JUNK))


def _scale(part: dict[str, Any], rng: random.Random) -> None:
    numbers = [key for key, value in part.items() if type(value) in (int, float)]
    if numbers:
        key = rng.choice(numbers)
        part[key] = rng.choice((part[key] * 2, part[key] // 2, part[key] + 1, float(part[key]), -part[key]))


def _add(part: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(list({**KEYS, **RARE} if rng.random() < 0.7 else ROPE))
    part[key] = copy.deepcopy(rng.choice((*JUNK, *part.values())))


def _shorten(part: dict[str, Any], rng: random.Random) -> None:
    lists = [key for key, value in part.items() if isinstance(value, list) and value]
    if lists:
        changed = list(part[key := rng.choice(lists)])
        changed[rng.randrange(len(changed))] = rng.choice((*JUNK[:12], *changed))
        part[key] = rng.choice((changed, changed[1:], changed * 2))


def _move(part: dict[str, Any], rng: random.Random) -> None:
    """Move a key into a dictionary at the same level, or move the contents of a dictionary up by one level."""
    inner = [key for key, value in part.items() if isinstance(value, dict)]
    if inner and rng.random() < 0.5:
        part |= part.pop(rng.choice(inner))
    else:
        key = rng.choice(list(part))
        value = part.pop(key)
        around = part.setdefault(rng.choice((*inner, "text_config", "rope_parameters", "rope_scaling")), {})
        if isinstance(around, dict):
            around[key] = value


MUTATIONS: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (
    _rename,
    _drop,
    _replace,
    _scale,
    _add,
    _shorten,
    _move,
)


def mutated(seed: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a copy with one to three changes, about half of which are inside any nested dictionaries."""
    config = copy.deepcopy(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        part = config
        while (
            inner := [value for value in part.values() if isinstance(value, dict) and value]
        ) and rng.random() < 0.6:
            part = rng.choice(inner)
        if part:
            rng.choice(MUTATIONS)(part, rng)
    return config


def as_object(config: dict[str, Any], seed: dict[str, Any]) -> Any:
    """Return the seed's config object with the changes as attributes, which transformers does not check."""
    made = CONFIG_MAPPING[seed["model_type"]].from_dict(copy.deepcopy(seed))
    for key, value in config.items():
        if key not in seed or seed[key] != value:
            vars(made)[str(key)] = value
    return made


def rotations(config: Any, positions: ModelPositions) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the model's cos and sin, and posenc's in the same layout, for every rotating layer type."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    kinds = [value for name, value in vars(module).items() if name.endswith("RotaryEmbedding")]
    family = FAMILIES[positions.model_type]
    if len(kinds) != 1 or positions.layout or family.fixed_base or family.rotates in ("bases", "scaled"):
        # GPT-J has a table in every layer, or returns sin before cos; towers rotate by places; Granite-SWA and
        # Molmo 2 have several modules.
        return
    theirs, at = kinds[0](config), torch.arange(LENGTH)[None]
    for name, ours in positions.encodings(LENGTH, "float32").items():
        if name not in positions.rotary_recipes or name not in positions.layer_types:
            continue
        entry = (config.rope_parameters or {}).get(name)
        own = theirs(torch.zeros(1), at, *([name] if isinstance(entry, dict) else []))
        cos, sin = (table.squeeze(1) for table in ours.tables(at))
        sin = -sin if family.backwards else sin  # its code rotates in the other direction
        laid = _layout(theirs, name, cos.shape[-1])(cos, sin, torch.float32)
        if isinstance(own, Tensor):
            yield own, laid.view_as(own)
        else:
            yield torch.stack(own), torch.stack(laid)


def verdict(given: Any, load: Callable[[], Any]) -> str:
    """Return the verdict on a config: refused, equal, refused by transformers alone, or the mistake."""
    try:
        ours = read(given)
    except PosencError as error:
        return f"WRONG: poor message {error}" if len(str(error)) < 20 or "\n" in str(error) else "refused"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    try:
        loaded = load()
    except Exception:
        return "refused by transformers alone"
    return _compared(ours, loaded)


def by_layer(positions: ModelPositions) -> list[Any]:
    """Return recipe, query scale and window of every layer, regardless of the names of layer types."""
    layers = zip(positions.layer_types, positions.windows, strict=True)
    return [(positions.recipes[kind], positions.scales.get(kind), window) for kind, window in layers]


def _compared(ours: ModelPositions, loaded: Any) -> str:
    try:
        again = read(loaded)
    except PosencError as error:
        return f"WRONG: refused as an object: {error}"
    if (by_layer(ours), ours.chunk) != (by_layer(again), again.chunk):
        return "WRONG: JSON and object differ"
    if any(recipe.get("head_dim", 0) > WIDEST for recipe in ours.rotary_recipes.values()):
        return "equal, tables too wide to make"
    try:
        pairs = list(rotations(loaded.get_text_config(), ours))
    except Exception:
        return "refused by transformers alone, in its module"
    slices = (
        "head_dim" in FAMILIES[ours.model_type].ignored
    )  # its class sets head_dim to the slice that its attention rotates
    for own, made in pairs:
        if slices and own.shape[-1] != made.shape[-1]:
            return "refused by transformers alone, in its attention"
        if own.shape != made.shape or not torch.allclose(own, made, rtol=0, atol=CLOSE):
            return "WRONG: tables differ"
    return "equal" if pairs else "equal, no table to compare"


def run(count: int, first: int = 0, families: Sequence[str] = HERE) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield the verdict, the config, and whether it was an object, for ``count`` configs from ``first`` on."""
    for i in range(first, first + count):
        rng = random.Random(i)
        seed = rng.choice(seeds(families[i % len(families)]))
        config = mutated(seed, rng)
        if i % 3 == 0:
            given = as_object(config, seed)
            yield verdict(given, lambda given=given: given), config, True
        else:
            yield verdict(config, lambda config=config: from_json(config)), config, False


def from_json(config: dict[str, Any]) -> Any:
    """Return the config object that transformers builds from JSON."""
    return CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config))


def quiet() -> None:
    """Hide transformers' warnings, which concern most of these configs."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
