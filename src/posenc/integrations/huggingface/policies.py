"""Which layers rotate, at which base, and which scale their queries, from the object of transformers' class.

rope_parameters by layer type, None for those without positions     Beam, Gemma 3 and 4
no_rope_layers, in which 1 means that a layer rotates               SmolLM3, Llama 4
rope_scaling_layers, the layers that the scaling is of              Molmo 2
layer_types, or two entries under main and compress                 DeepSeek-V4
layer_rope_theta, in which 0 means that it does not                 Granite-SWA, which has its bases there; Muse
only sliding layers rotate                                          Cohere 2, EXAONE 4
position_embedding_type, without which none does                    Granite hybrid
attn_layer_indices, the numbers of layers that attend               Bamba
cross_attention_layers, the numbers of layers that do not rotate    Llama 3.2 Vision
"""

from collections.abc import Mapping
from typing import Any

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.family import TOKENS_AHEAD, TOKENS_BACK, Count
from posenc.integrations.huggingface.model_positions import NOPE
from posenc.integrations.huggingface.reader import Reader
from posenc.integrations.huggingface.schema import FULL, KEYS, LAYER_TYPES, NEAR, RECURRENT, ROPE
from posenc.scaling import Default

Recipes = tuple[dict[str, Recipe], tuple[str, ...]]


def by_layer(reader: Reader, parameters: Mapping[str, Any]) -> Recipes:
    """Recipes by kind, and the kind of each layer, from a rope dictionary and what is around it."""
    family, count = reader.family, reader.depth
    if family.rotates.by == "compression":
        return _compressed(reader, parameters)
    nested = {key: value for key, value in parameters.items() if isinstance(value, Mapping) or key in LAYER_TYPES}
    types = stated_types(reader)
    if nested:
        return _typed(reader, parameters, nested, types)
    if family.rotates.by == "switch" and reader.get(family.rotates.key) is None:
        reader.assume(f"no layer has positions: {family.rotates.key} is missing")
        return {"nope": NOPE}, ("nope",) * count
    if family.rotates.by == "switch" and not types:
        raise InvalidArgument(f"the config of model_type {reader.model_type!r} has no layer_types; add them")
    recipe = reader.rotary(parameters)
    if family.rotates.by == "bases":
        return _bases(reader, recipe)
    scaled = reader.get(family.rotates.key) if family.rotates.by == "scaled" else None
    if scaled is not None and recipe.get("scaling") != Default() and not set(range(count)) <= {*scaled}:
        recipes = {"scaled": recipe, "unscaled": recipe.with_(scaling=Default())}
        return recipes, tuple("scaled" if i in scaled else "unscaled" for i in range(count))
    rotates = _rotates(reader, types)
    if rotates is None:
        return {"all": recipe}, ("all",) * count
    return {"rotary": recipe, "nope": NOPE}, tuple("rotary" if layer else "nope" for layer in rotates)


def _compressed(reader: Reader, parameters: Mapping[str, Any]) -> Recipes:
    """DeepSeek-V4: layers that see only a window, and those that also see earlier tokens, compressed."""
    kinds = tuple("main" if kind == NEAR else "compress" for kind in stated_types(reader))
    entries = {kind: KEYS["rope_parameters"].check(kind, parameters.get(kind)) for kind in ("main", "compress")}
    if not all(entry.get("partial_rotary_factor") for entry in entries.values()):
        raise InvalidArgument(
            "rope_parameters main and compress need a partial_rotary_factor each, without which a module rotates "
            "the whole head; add qk_rope_head_dim/head_dim to both"
        )
    if "compress" in kinds:
        reader.assume(
            "layers named compress see the tokens before their window compressed, each group at the position of "
            "its first token"
        )
    reader.assume("outputs of attention are rotated back at their query's position: PlacedRotation.unrotate")
    head_dim, share = reader.need("head_dim"), "partial_rotary_factor"
    widths = {kind: int(head_dim * ROPE[share].check(share, entry[share])) for kind, entry in entries.items()}
    return {kind: reader.rotary(entry, widths[kind]) for kind, entry in entries.items()}, kinds


def _rotates(reader: Reader, types: tuple[str, ...]) -> list[bool] | None:
    """Whether each layer rotates; None if all do."""
    rule = reader.family.rotates
    if rule.by == "windows" and reader.get("sliding_window") is not None:
        return [kind == NEAR for kind in stated_types(reader)]
    if rule.by == "flags":
        flags = reader.need(str(rule.key))
        if len(flags) != reader.depth:
            raise InvalidArgument(
                f"{rule.key} has {len(flags)} entries and {reader.family.layers} is {reader.depth}"
            )
        return [bool(flag) for flag in flags]
    if rule.by in ("indices", "others"):
        return [(i in (reader.get(rule.key) or ())) == (rule.by == "indices") for i in range(reader.depth)]
    if rule.by == "switch":
        return [kind in ("attention", "full_attention") for kind in types]
    return [kind not in RECURRENT for kind in types] if RECURRENT & set(types) else None


def windows(reader: Reader) -> tuple[int | None, ...]:
    """How many tokens back every layer sees, itself included, if the config says so; None for all."""
    count, stated = reader.depth, _window(reader)
    if not stated:
        return (None,) * count
    window = TOKENS_BACK[_counts(reader)](stated)
    types = () if reader.family.rotates.by == "compression" else stated_types(reader)
    return tuple(window if kind == NEAR else None for kind in types or (NEAR,) * count)


def _counts(reader: Reader) -> Count:
    """The unit of a window's number in this config."""
    both = reader.get("use_bidirectional_attention") in (True, "all") and reader.family.windows.two_sided
    return both or reader.family.windows.counts


def _window(reader: Reader) -> int | None:
    """The number of a window, in the unit of ``_counts``."""
    both, before = reader.get("local_attention"), reader.get(reader.family.windows.before)
    if both is not None:
        return int(both // 2)  # half of them on either side
    return reader.get("sliding_window") if before is None else int(before + 1)


def window_after(reader: Reader) -> int:
    """How many later tokens a token sees in its window."""
    return TOKENS_AHEAD.get(_counts(reader), lambda window: 0)(_window(reader) or 0)


def query_dim(reader: Reader) -> int | None:
    """Channels of a query in latent attention, of which the last rotate; None in other families."""
    if reader.family.rotates.by == "compression":
        return int(reader.need("head_dim"))
    if reader.family.head_dim != "qk_rope_head_dim":
        return None
    return int(reader.need("qk_nope_head_dim") + reader.need("qk_rope_head_dim"))


def stated_types(reader: Reader) -> tuple[str, ...]:
    """``layer_types``, if the config has it: one for every layer, as the class makes it."""
    types, coded = tuple(reader.get("layer_types") or ()), _decoded(reader)
    if coded and coded != [*types]:
        raise InvalidArgument(
            f"{reader.family.windows.codes} has no effect: transformers' class makes {[*types]} of the config; "
            "write layer_types as that does, AutoConfig.from_pretrained(path).save_pretrained(path)"
        )
    if types and len(types) != reader.depth:
        raise InvalidArgument(f"layer_types has {len(types)} entries and {reader.family.layers} is {reader.depth}")
    return types


def _decoded(reader: Reader) -> list[str]:
    """The layer types of the numbers in a list."""
    windows = reader.family.windows
    codes = (reader.get(windows.codes) or ())[: reader.depth]
    for code in codes:
        if str(int(code)) not in windows.types:
            raise InvalidArgument(f"{windows.codes} has {code}; known: {', '.join(windows.types)}")
    return [windows.types[str(int(code))] for code in codes]


def scales(reader: Reader, kinds: Mapping[str, Recipe], parameters: Mapping[str, Any]) -> dict[str, Recipe]:
    """The query scale of every layer type that has one."""
    rule = reader.family.query_scale
    if rule is None:
        return {}
    scale = Recipe("query-scale").with_(rule=rule)
    if rule == "ministral3":  # after rotation, in every layer
        beta, floor = (parameters.get(key) for key in ("llama_4_scaling_beta", "original_max_position_embeddings"))
        if beta is None or (beta == 0 and beta is not False):  # Devstral 2's
            return {}
        if floor is None:
            raise InvalidArgument(
                "rope_parameters has llama_4_scaling_beta without original_max_position_embeddings, the positions "
                "that it counts in; add it"
            )
        beta = ROPE["llama_4_scaling_beta"].check("llama_4_scaling_beta", beta)
        floor = ROPE["original_max_position_embeddings"].check("original_max_position_embeddings", floor)
        return {name: scale.with_(amount=float(beta), floor=floor) for name in kinds}
    if rule == "llama4":
        if reader.get("attn_temperature_tuning") in (False, 0):
            return {}
        amount, floor = reader.need("attn_scale"), reader.need("floor_scale")
    else:
        amount, floor = 0.1, 2048  # in the family's code
    scale = scale.with_(amount=float(amount), floor=int(floor))
    return {name: scale for name, recipe in kinds.items() if recipe == NOPE}


def _typed(
    reader: Reader, parameters: Mapping[str, Any], nested: dict[str, Any], types: tuple[str, ...]
) -> Recipes:
    if set(nested) != set(parameters):
        stray = sorted(set(parameters) - set(nested))
        raise InvalidArgument(f"rope_parameters mixes layer types {sorted(nested)} with plain keys {stray}")
    if (
        not types
        or set(types) - set(nested) - RECURRENT
        or any(value is not None and not value for value in nested.values())
    ):
        raise InvalidArgument(
            f"rope_parameters has {sorted(nested)} and layer_types {sorted(set(types))}; every layer type needs "
            "its own entry"
        )
    given = {key: KEYS["rope_parameters"].check(key, value or {}) for key, value in nested.items() if key in types}
    for key, value in given.items():
        if value.get("truncate") is False:
            reader.assume(
                f"truncate=false under {key!r} is dropped by transformers: the ends of its ramp are rounded"
            )
            given[key] = {**value, "truncate": True}
    given |= {key: {} for key in RECURRENT & set(types)}
    wide = {FULL: reader.full_head_dim()}
    ordered = sorted(given.items(), key=lambda one: one[0] == NEAR)
    return {k: reader.rotary(value, wide.get(k)) if value else NOPE for k, value in ordered}, types


def _bases(reader: Reader, recipe: Recipe) -> Recipes:
    """A list of bases, 0 for a layer without positions."""
    key, count = reader.family.rotates.key, reader.depth
    bases = reader.get(key) or [recipe.get("base")] * count
    if len(bases) != count:
        raise InvalidArgument(f"{key} has {len(bases)} entries and {reader.family.layers} is {count}")
    used = sorted({float(base) for base in bases if base})
    names = {base: "rotary" if len(used) == 1 else f"base {base:g}" for base in used} | {0.0: "nope"}
    kinds = {names[base]: recipe.with_(base=base) for base in used}
    if not all(bases):
        kinds["nope"] = NOPE
    return kinds, tuple(names[float(base)] for base in bases)
