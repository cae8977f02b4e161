"""Which mistake of a port gives its numbers: `posenc doctor model/config.json numbers.npz`.

print(diagnose(huggingface.read("model"), {"positions": at, "x": x, "rotated": y}, layer="full_attention"))
# rotates channels (i, i+64) instead of (i, i+256); this reproduces all 5,120 numbers to 3e-07
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.encodings.catalogue import canonical
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations import position_table
from posenc.integrations.doctor.call import OFFSETS, called, vector
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.rotation_port import RotationPort
from posenc.integrations.doctor.search import Array, Diagnosis, Subject, diagnosed
from posenc.integrations.doctor.tables import BucketsPort, CodesPort, SlopesPort
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.scaling import Default, Linear, Proportional, planned

NAMES = {
    "rotary": ("positions", "x", "rotated", "cos", "sin", "inv_freq"),
    "alibi": ("bias", "slopes"),
    "sinusoidal": ("table",),
    "t5": ("offsets", "buckets"),
}
"""What a port may give, by the encoding."""
FREE = {"rotary": ("base", "pairing"), "alibi": (), "sinusoidal": ("order",), "t5": ("two_sided",)}
"""In what a port may choose if an encoding's text does not state it; a model states all."""
TABLES: Mapping[str, Callable[..., Subject[Any]]] = {
    "alibi": SlopesPort.of,
    "sinusoidal": CodesPort.of,
    "t5": BucketsPort.of,
}
HEAD_DIM, HEADS = 64, 12
"""Those of a function's arguments if the encoding's text has none."""


def diagnose(model: ModelPositions | str, numbers: Mapping[str, Any], *, layer: str | None = None) -> Diagnosis:
    """Which description of a port gives these numbers.

    Args:
        model: what ``huggingface.read`` returned, or an encoding's text, ``"rotary"``, ``"alibi"`` or
            ``"sinusoidal"``; what such a text does not state, base or pairing, a port may choose.
        numbers: a port's arrays by name. Of a rotation ``positions (T,)`` or ``(A, T)``, ``x`` and ``rotated``,
            both ``(…, T, D)``, ``cos`` and ``sin (T, W)``, ``inv_freq (P,)``; of ALiBi ``bias (H, T, T)`` or
            ``slopes (H,)``; of sinusoidal codes ``table (T, D)``; of T5 ``buckets (N,)`` and ``offsets (N,)``,
            j − i.
        layer: the layer type; may be left out where only one rotates.

    Raises:
        InvalidArgument: shapes that do not belong together, or no numbers.
        UnknownName: names that are not these, no such layer type, or an encoding that has no search.
    """
    return diagnosed([subject(model, numbers, layer)])


def diagnose_rotation(right: Rotation, numbers: Mapping[str, Any]) -> Diagnosis:
    """The same for a rotation that is described already."""
    seen = {name: torch.as_tensor(value).double().numpy() for name, value in numbers.items()}
    return diagnosed([RotationPort(right, _rows(seen, right))])


def diagnose_call(model: ModelPositions | str, path: Path, name: str, *, layer: str | None = None) -> Diagnosis:
    """Which description of a port a function is, whatever its signature.

    Args:
        path, name: the file and the function or class in it; see ``posenc.integrations.doctor.call``.

    Raises:
        InvalidArgument: the function cannot be called.
    """
    found = diagnosed_answers(model, called(path, name, *handed(model, layer)), layer)
    if found is None:
        wanted = " or ".join(NAMES[_asked(model, layer)[0].name])
        raise InvalidArgument(f"{path}:{name} returns nothing to compare; return {wanted}")
    return found


def handed(model: ModelPositions | str, layer: str | None = None) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The sizes and tables that a function is handed."""
    given: dict[str, float] = {"head_dim": HEAD_DIM, "heads": HEADS}
    if _asked(model, layer)[0].name != "rotary":
        return given, {}
    right, free = rotation_of(model, layer, HEAD_DIM)
    given |= {"head_dim": right.head_dim} | ({} if "base" in free else {"base": right.base})
    return given, {"theta": torch.from_numpy(right.theta), "factor": torch.tensor(right.factor)}


def diagnosed_answers(
    model: ModelPositions | str, answers: Sequence[Mapping[str, Any]], layer: str | None = None
) -> Diagnosis | None:
    """Which description a function is, by what it returned under each layout; None where nothing compares."""
    D, subjects = int(handed(model, layer)[0]["head_dim"]), []
    for answer in answers:
        if numbers := _reading(_asked(model, layer)[0].name, answer, D):
            axes = ", ".join(answer["layout"])
            note = f", x as ({axes})" if answer["layout"] not in ("", "TD") else ""
            subjects.append(subject(model, numbers, layer, D, note))
    return diagnosed(subjects) if subjects else None


def subject(
    model: ModelPositions | str,
    numbers: Mapping[str, Any],
    layer: str | None = None,
    head_dim: int | None = None,
    note: str = "",
) -> Subject[Any]:
    """What is asked: the right description, and the numbers as the search has them."""
    recipe, free = _asked(model, layer)
    if recipe.name not in NAMES:
        raise UnknownName("encoding to search", recipe.name, NAMES)
    for name in numbers:
        if name not in NAMES[recipe.name]:
            raise UnknownName("array", name, NAMES[recipe.name])
    if not set(numbers) - {"positions", "x"}:
        raise InvalidArgument(
            f"there is nothing that a port computed; give some of {', '.join(NAMES[recipe.name])}"
        )
    seen = {name: torch.as_tensor(value).double().numpy() for name, value in numbers.items()}
    if recipe.name == "rotary":
        right, free = rotation_of(model, layer, head_dim or _head_dim(seen))
        return RotationPort(right, _rows(seen, right), free, note)
    return TABLES[recipe.name](recipe, seen, free)


def _head_dim(seen: Mapping[str, Array]) -> int:
    """Channels of a head, as the numbers themselves have it: a table may have every pair once or twice."""
    if "x" in seen:
        return int(seen["x"].shape[-1])
    values = next(values for name, values in seen.items() if name != "positions")
    width = values.shape[-1]
    halves, neighbours = values.reshape(-1, 2, width // 2), values.reshape(-1, width // 2, 2)
    twice = np.array_equal(halves[:, 0], halves[:, 1]) or np.array_equal(neighbours[..., 0], neighbours[..., 1])
    return int(width if twice else 2 * width)


def _asked(model: ModelPositions | str, layer: str | None) -> tuple[Recipe, frozenset[str]]:
    """The right encoding, and the settings in which a port may choose."""
    if isinstance(model, str):
        stated = parse(model)
        return canonical(stated, full=True), frozenset(FREE.get(stated.name, ())) - {k for k, _ in stated.settings}
    table = position_table.of(model)
    kinds = dict(zip(table.layer_types, model.layer_types, strict=True))
    if layer is not None:
        if layer not in kinds and layer not in model.recipes:
            raise UnknownName("layer", layer, kinds)
        return model.recipes[kinds.get(layer, layer)], frozenset()
    sought = [kind for kind in dict.fromkeys(kinds.values()) if model.recipes[kind].name in NAMES]
    if not sought:
        raise InvalidArgument(f"model_type {model.model_type!r} has no layer that rotates or that ALiBi biases")
    if len(sought) > 1:
        raise InvalidArgument(f"this model has {len(sought)} layer types; give layer, one of {', '.join(sought)}")
    return model.recipes[sought[0]], frozenset()


def rotation_of(model: ModelPositions | str, layer: str | None, head_dim: int) -> tuple[Rotation, frozenset[str]]:
    """The right description of a layer type, and the fields that nobody stated."""
    recipe, free = _asked(model, layer)
    if isinstance(model, str):
        return of_recipe(recipe.with_(head_dim=recipe.get("head_dim") or head_dim)), free
    table = position_table.of(model)
    lengths = tuple(n for n in (table.pretrained_length, table.tuned_length, table.admitted_length) if n)
    ladders = {
        named(name, other.base): other.frequencies for name, other in table.layers.items() if other.frequencies
    }
    return of_recipe(recipe, model.max_length, ladders, lengths), free


def named(layer_type: str, base: float | None) -> str:
    """A layer type in words, with its base."""
    return f"{layer_type!r} (base {base:.10g})"


def of_recipe(
    recipe: Recipe,
    length: int | None = None,
    ladders: Mapping[str, tuple[float, ...]] | None = None,
    lengths: tuple[int, ...] = (),
) -> Rotation:
    """What a recipe of a rotation asks of a port.

    Args:
        length: prompt and answer together, where its scaling depends on it.
        ladders, lengths: the frequencies of all layer types, and the lengths that the config states.
    """
    D, base = int(recipe.get("head_dim")), float(recipe.get("base"))
    rotary_dim, axes = int(recipe.get("rotary_dim") or D), recipe.get("axes")
    scaling = planned(recipe.get("scaling") or Default(), length)
    spectrum = scaling.frequencies(rotary_dim, base)
    theta = tuple(map(float, spectrum.exact))
    turning = sum(value != 0 for value in theta)
    if isinstance(scaling, Proportional):  # how many pairs turn is a field of its own
        scaling = Linear(scaling.factor) if scaling.factor != 1 else Default()
    return Rotation(
        head_dim=D,
        pairing=recipe.get("pairing"),
        distance=rotary_dim // 2,
        turning=turning,
        span=rotary_dim,
        base=base,
        scaling=scaling,
        factor=spectrum.attention_factor,
        sign=-1 if recipe.get("backwards") else 1,
        axes=(0,) * turning if axes is None else tuple(axes.axis_of_pair)[:turning],
        ladders={name: values for name, values in (ladders or {}).items() if values != theta},
        lengths=lengths,
    )


def load(path: Path) -> dict[str, Any]:
    """The arrays of a file by name.

    Raises:
        InvalidArgument: no such file, or none of .npz, .safetensors and .json.
    """
    if not path.is_file():
        raise InvalidArgument(f"{str(path)!r} is no file; give the port's arrays as .npz, .safetensors or .json")
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    if path.suffix == ".json":
        return {name: np.asarray(values) for name, values in json.loads(path.read_text("utf-8")).items()}
    raise InvalidArgument(f"{str(path)!r} ends in {path.suffix!r}; give .npz, .safetensors or .json")


def _rows(seen: Mapping[str, Array], right: Rotation) -> dict[str, Array]:
    """The numbers with a row a token, and the number of every row along both axes."""
    if not set(seen) & {"x", "rotated", "cos", "sin"}:
        return {"inv_freq": seen["inv_freq"]}
    if "positions" not in seen:
        raise InvalidArgument("there are no positions; give the position of every row, as integers")
    if ("x" in seen) != ("rotated" in seen):
        raise InvalidArgument("give x and rotated both, before the rotation and after it")
    where, D = np.atleast_2d(seen["positions"]), right.head_dim
    tokens, result = where.shape[-1], dict(seen)
    x, y = (seen.get(name, np.empty((tokens, D))) for name in ("x", "rotated"))
    if x.shape != y.shape or x.shape[-2:] != (tokens, D):
        raise InvalidArgument(
            f"x has shape {x.shape} and rotated {y.shape}; both must be (…, {tokens}, {D}): "
            "heads, tokens, channels of a head"
        )
    copies = math.prod(x.shape[:-2])
    for name in {"cos", "sin"} & set(seen):
        if seen[name].ndim != 2 or len(seen[name]) != tokens:
            raise InvalidArgument(f"{name} has shape {seen[name].shape}; give ({tokens}, W), a row a position")
        result[name] = np.tile(seen[name], (copies, 1))
    result |= {name: seen[name].reshape(-1, D) for name in ("x", "rotated") if name in seen}
    heads = np.arange(float(copies)) % (x.shape[-3] if x.ndim > 2 else 1)
    rows = np.tile(np.arange(float(tokens)), copies)
    return result | {"positions": np.tile(where, (1, copies)), "rows": rows, "heads": heads.repeat(tokens)}


def _reading(encoding: str, answer: Mapping[str, Any], head_dim: int) -> dict[str, Array]:
    """What a function returned, as the numbers that it may be; empty for others."""
    layout, at = answer["layout"], answer["positions"].numpy()
    arrays = {name: value.double().numpy() for name, value in answer.items() if name not in ("layout", "positions")}
    if encoding == "rotary" and "rotated" in arrays:
        x = vector(layout, head_dim).double().numpy()
        both = {"x": x, "rotated": arrays["rotated"]}
        return {"positions": at} | {k: v.swapaxes(-3, -2) if layout.endswith("THD") else v for k, v in both.items()}
    if encoding == "rotary" and "cos" in arrays:
        tables = {name: arrays[name].reshape(-1, arrays[name].shape[-1])[: len(at)] for name in ("cos", "sin")}
        return {"positions": at, **tables} if len(tables["cos"]) == len(at) else {}
    array = arrays.get("array", np.zeros(()))
    if encoding == "t5":
        return {"offsets": OFFSETS.double().numpy(), "buckets": array} if array.shape == OFFSETS.shape else {}
    shapes = {("rotary", 1): "inv_freq", ("alibi", 1): "slopes", ("alibi", 3): "bias", ("sinusoidal", 2): "table"}
    array = array[0] if array.ndim > 1 and len(array) == 1 else array
    name = shapes.get((encoding, array.ndim))
    return {name: array} if name else {}
