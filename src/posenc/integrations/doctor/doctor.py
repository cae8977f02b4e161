"""Finds the mistake in a port from the arrays that it computes: `posenc doctor model/config.json numbers.npz`.

print(diagnose(huggingface.read("model"), {"positions": at, "x": x, "rotated": y}, layer="full_attention"))
# rotates channels (i, i+64) instead of (i, i+256); this reproduces all 5,120 numbers to 3e-07
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posenc.arguments import one_of
from posenc.encodings.catalogue import canonical
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument
from posenc.integrations import position_table
from posenc.integrations.doctor.rotation import by_pair
from posenc.integrations.doctor.rotation_port import ROTARY, UNTURNED
from posenc.integrations.doctor.search import Diagnosis, Expected, Kind, Search, diagnosed
from posenc.integrations.doctor.tables import ALIBI, SINUSOIDAL, T5_BUCKETS
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.scaling import LengthScaling

KINDS: Mapping[str, Kind] = {"rotary": ROTARY, "alibi": ALIBI, "sinusoidal": SINUSOIDAL, "t5": T5_BUCKETS}


def diagnose(model: ModelPositions | str, numbers: Mapping[str, Any], *, layer: str | None = None) -> Diagnosis:
    """Find the mistake in a port that computes these numbers.

    Args:
        model: the position settings that ``huggingface.read`` returned, or an encoding's string: ``"rotary"``,
            ``"alibi"``, ``"t5"`` or ``"sinusoidal"``. If the string omits the base or the pairing, every usual base
            or pairing counts as right.
        numbers: a port's arrays by name. For a rotation, pass ``positions``, of shape (T,) or (A, T), with ``x``
            and ``rotated``, both (…, T, D), or with ``cos`` and ``sin``, both (T, W); or pass only ``inv_freq``,
            (P,). For ALiBi, pass ``bias (H, T, T)`` or ``slopes (H,)``. For sinusoidal embeddings, pass
            ``table (T, D)``, with ``positions (T,)`` unless they are 0 to T − 1. For T5, pass ``buckets (N,)`` and
            ``offsets (N,)``; offsets are key position − query position.
        layer: the layer type; optional if the model has only one layer type.

    Raises:
        InvalidArgument: arrays are missing, have unknown names, or do not fit together.
        UnknownName: the model has no such layer type, or ``posenc doctor`` does not support its encoding.
    """
    types = expected(model)
    if layer is None and len(types) > 1:
        raise InvalidArgument(f"the model has {len(types)} layer types; pass layer as one of {', '.join(types)}")
    asked = types[one_of("layer", layer or next(iter(types)), types)]
    searches = [search(asked, numbers)]
    if isinstance(asked.recipe.get("scaling"), LengthScaling) and asked.lengths:  # short inputs are right too
        last = torch.as_tensor(numbers["positions"]).max() if "positions" in numbers else min(asked.lengths) - 1
        searches.append(search(replace(asked, lengths=(*asked.lengths, 1 + int(last))), numbers))
    return diagnosed(searches)


def search(asked: Expected, numbers: Mapping[str, Any], note: str = "") -> Search:
    """Return the ``Search`` for a port's arrays, which may be tensors, NumPy arrays or lists."""
    kind = KINDS[one_of("encoding to diagnose", asked.recipe.name, KINDS)] if asked.rotates else UNTURNED
    numbers = {  # complex arrays, such as freqs_cis, are cos + i·sin
        part: values
        for name, array in numbers.items()
        for part, values in (
            {"cos": array.real, "sin": array.imag} if np.iscomplexobj(array) else {name: array}
        ).items()
    }
    if "table" in numbers:
        numbers = {"positions": np.arange(len(numbers["table"])), **numbers}
    complete = {name for form in kind.forms if set(form) <= set(numbers) for name in form}
    if not complete or set(numbers) - complete - {"positions"}:
        raise InvalidArgument(
            f"the port's arrays cannot be compared; got {' and '.join(numbers) or 'no arrays'}; pass "
            + ", or ".join(" and ".join(form) for form in kind.forms)
        )
    arrays = {name: torch.as_tensor(values).double().numpy() for name, values in numbers.items()}
    if (
        "positions" in arrays
        and asked.recipe.get("axes")
        and not np.ptp(np.atleast_2d(arrays["positions"]), axis=0).any()
    ):
        note += ", for text; pictures were not tried, because positions are equal on all axes"
    if "cos" in arrays:
        cos, sin, pairing = (*(by_pair(arrays[name], 0)[1] for name in ("cos", "sin")), asked.recipe.get("pairing"))
        note += ", from tables (which do not show a port's pairs) with " + (
            f"{cos} in cos, and {sin} in sin"
            if cos != sin
            else cos
            + f", but the model has {pairing} pairs"
            * ("as for" in cos and pairing not in cos and "pairing" not in asked.free)
        )
    if isinstance(asked.recipe.get("scaling"), LengthScaling):
        reached = 1 + int(arrays.get("positions", np.zeros(1)).max())  # may exceed all lengths in the config
        asked = replace(asked, lengths=(*asked.lengths, *(reached for n in asked.lengths[-1:] if n < reached)))
        note += f", for inputs of {asked.lengths[-1]:,} tokens" * bool(asked.lengths)
    return Search(kind, asked, arrays, note)


def expected(model: ModelPositions | str) -> dict[str, Expected]:
    """Return what a port should compute for each layer type. If ``model`` is an encoding's string, the only layer
    type is ``""``.
    """
    if isinstance(model, str):
        stated = parse(model)
        recipe = canonical(stated, full=True)
        choices = KINDS[recipe.name].free if recipe.name in KINDS else ()
        free = frozenset(name for name, _ in recipe.settings if name in choices and stated.get(name) is None)
        return {"": Expected(recipe, free)}
    table, types = position_table.of(model), list(model.layer_types)
    recipes = {
        name: canonical(model.recipes[name], full=True) for name in types if model.recipes[name].name in KINDS
    }
    if not recipes:
        raise InvalidArgument(
            f"model_type {model.model_type!r} has no layers whose encoding is {' or '.join(KINDS)}"
        )
    ladders = {name: (other.base, other.frequencies) for name, other in table.layers.items() if other.base}
    lengths = tuple(filter(None, (table.pretrained_length, table.tuned_length, table.admitted_length)))
    unrotated = tuple(i for i, name in enumerate(types) if model.recipes[name].name == "nope")
    return {
        layer_type: Expected(
            recipe,  # the code of some models writes the pairs of latent attention elsewhere
            frozenset({"written"} if model.query_dim and recipe.get("pairing") == "interleaved" else ()),
            ladders=ladders,
            lengths=lengths,
            layer_type=layer_type,
            indices=tuple(i for i, name in enumerate(types) if name == layer_type),
            unrotated=unrotated,
            query_dim=model.query_dim,
        )
        for layer_type, recipe in recipes.items()
    }


def load(path: Path) -> dict[str, Any]:
    """Load the arrays of a file, by name.

    Raises:
        InvalidArgument: the file does not exist, or is not .npz, .safetensors or .json.
    """
    if not path.is_file() or path.suffix not in LOADERS:
        raise InvalidArgument(
            f"{str(path)!r} {'must be' if path.is_file() else 'does not exist or is not a file; pass'} "
            f"a {' or '.join(LOADERS)} file with the port's arrays"
        )
    return LOADERS[path.suffix](path)


LOADERS: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    ".npz": lambda path: dict(np.load(path)),
    ".safetensors": lambda path: dict(import_module("safetensors.torch").load_file(path)),
    ".json": lambda path: json.loads(path.read_text("utf-8")),
}
