"""Reference vectors: numbers computed from a model's position settings, for testing ports of the model.

    vectors(huggingface.read("model/config.json")).save("rope.json")      # or posenc vectors model -o rope.json
    assert_vectors({"cos": cos, "sin": sin}, "rope.json")                 # arrays that a port in Python computed

docs/vectors.md documents the names and shapes of the arrays in the file. A port can be in any language and
does not need posenc.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import as_integer, at_least
from posenc.clock import Phases
from posenc.encodings.catalogue import ModelShape, build, canonical
from posenc.encodings.rotary import Pairing, Rotary, rotate
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument
from posenc.integrations import position_table
from posenc.integrations.differences import CLOSE
from posenc.integrations.doctor.doctor import Expected, diagnosed, search
from posenc.integrations.huggingface.config import contents
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.scaling import parameters_from
from posenc.integrations.position_table import LayerTable
from posenc.scaling import Default, PerPair, planned

FORMAT = "posenc-vectors 1"
Port = Callable[[str, Float[Tensor, " D"], Int[Tensor, "A T"]], Any]
"""The rotation function of a port: it maps a layer type, a query and positions to rotated queries ``(T, D)``."""


@dataclass(frozen=True)
class Vectors:
    """Reference vectors of a model.

    Args:
        header: the strings and scalars of the file.
        arrays: the arrays by name; names have the form ``"LAYER TYPE.NAME"``.
    """

    header: Mapping[str, Any]
    arrays: Mapping[str, Tensor]

    def save(self, path: str | Path) -> Path:
        """Save the vectors as JSON or safetensors, according to the suffix of ``path``."""
        path = Path(path)
        if path.suffix == ".safetensors":
            from safetensors.torch import save_file

            save_file(
                {name: array.contiguous() for name, array in self.arrays.items()},
                path,
                metadata={"header": json.dumps(self.header)},
            )
        elif path.suffix == ".json":
            lists = {
                name: {"dtype": str(array.dtype).removeprefix("torch."), "data": array.tolist()}
                for name, array in self.arrays.items()
            }
            path.write_text(json.dumps({**self.header, "arrays": lists}) + "\n", "utf-8")
        else:
            raise InvalidArgument(f"output={str(path)!r} must end in .json or .safetensors")
        return path


def load(path: str | Path) -> Vectors:
    """Load reference vectors from a file.

    Raises:
        InvalidArgument: the file does not contain reference vectors.
    """
    if Path(path).suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("header", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    else:
        header = contents(Path(path), "file of reference vectors")
        arrays = {
            name: torch.tensor(one["data"], dtype=getattr(torch, one["dtype"]))
            for name, one in header.pop("arrays", {}).items()
        }
    if header.get("format") != FORMAT:
        raise InvalidArgument(f"{path} is not a {FORMAT!r} file; run posenc vectors to create one")
    return Vectors(header, arrays)


def vectors(
    positions: ModelPositions,
    at: Sequence[int] | None = None,
    *,
    phases: Phases = "exact",
    total_length: int | None = None,
    source: Mapping[str, str] | None = None,
) -> Vectors:
    """Return the reference vectors of a model.

    Args:
        positions: a model's position settings, as returned by ``huggingface.read``.
        at: the positions of the vectors. The default is 0, 1, 2, L − 1, L and 4·L − 1 for the pretrained length L.
        phases: ``"exact"``, or ``"float32"`` for the angles that transformers computes.
        total_length: the length of prompt and answer together, for scalings that depend on the length. The default
            is the model's maximum input length.
        source: where the config was published, such as its repository, path and commit.

    Raises:
        InvalidArgument: the model has no rotary layers, or ``at`` is empty or contains a negative position.
    """
    stated = None if total_length is None else at_least(1)(total_length, "total_length")
    table = position_table.of(positions, length=stated)
    length = positions.max_length if stated is None else stated
    L = positions.original_length
    at = sorted({0, 1, 2, L - 1, L, 4 * L - 1}) if at is None else [as_integer(p, "at") for p in at]
    if min(at, default=-1) < 0:
        raise InvalidArgument(f"positions={at} must have at least one entry, and all entries must be 0 or more")
    types = dict(zip(table.layer_types, positions.layer_types, strict=True))
    recipes = {
        name: positions.recipes[kind].with_(
            scaling=planned(positions.recipes[kind].get("scaling"), length), phases=phases
        )
        for name, kind in types.items()
        if table.layers[name].frequencies
    }
    if not recipes:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has no rotary layers, but reference vectors need at least one"
        )
    header = {
        "format": FORMAT,
        "model_type": positions.model_type,
        "phases": phases,
        **{key: getattr(table, key) for key in ("pretrained_length", "tuned_length", "admitted_length")},
        "total_length": length,
        "layer_types": list(table.layer_types),
        "layers": {name: _settings(table.layers[name], recipes.get(name)) for name in types},
        **({"source": dict(source)} if source else {}),
    }
    return Vectors(
        header,
        {f"{name}.{key}": array for name, recipe in recipes.items() for key, array in _arrays(recipe, at).items()},
    )


def _settings(layer: LayerTable, recipe: Recipe | None) -> dict[str, Any]:
    """Return the strings and scalars of one layer type. ``recipe`` is its recipe if the layers are rotary."""
    if recipe is None:
        return {"encoding": layer.encoding}
    plain = tuple(map(float, Default().frequencies(recipe.get("rotary_dim"), recipe.get("base")).exact))
    scaling = (
        recipe.get("scaling")
        if layer.unscaled == plain
        else PerPair(tuple(p / f for p, f in zip(plain, layer.frequencies, strict=True)), layer.attention_factor)
    )  # in vision towers, each axis has its own list of frequencies
    return {
        **{key: value for key, value in asdict(layer).items() if not isinstance(value, tuple)},
        "encoding": str(recipe),
        "sections": layer.sections,
        "axes": layer.axes,
        "parameters": parameters_from(scaling, recipe.get("rotary_dim"), recipe.get("base")),
    }


def _arrays(recipe: Recipe, at: Sequence[int]) -> dict[str, Tensor]:
    """Return all arrays of one layer type. Positions on axis k are k higher than ``at``."""
    rotary = cast(Rotary, build(recipe, ModelShape()))
    where = torch.tensor(at) + torch.arange(rotary.axes)[:, None]
    cos, sin = rotary.tables(where if rotary.axes > 1 else where[0])
    query = (2**0.5 * torch.sin(torch.arange(1, rotary.head_dim + 1, dtype=torch.float64) ** 2)).float()
    spectrum = rotary.clock.frequencies
    theta = spectrum.float32 if recipe.get("phases") == "float32" else [float(one) for one in spectrum.exact]
    frequencies = torch.tensor(theta, dtype=torch.float64)
    plain = rotary.base ** (-torch.arange(len(theta), dtype=torch.float64) / len(theta))
    return {
        "positions": where,
        "query": query,
        "inv_freq": frequencies,
        **({"rope_freqs": (plain / frequencies).float()} if all(theta) else {}),
        **_layouts(cos, sin),
        "rotated": rotate(query.expand(len(cos), -1), cos, sin, rotary.pairing),
    }


def _layouts(cos: Float[Tensor, "T P"], sin: Float[Tensor, "T P"]) -> dict[str, Tensor]:
    """Return cos and sin in the layouts that kernels use."""
    both = {"cos": cos, "sin": sin}
    return {
        **both,
        "cos_sin": torch.cat((cos, sin), -1),
        **{f"{name}_half": torch.cat((one, one), -1) for name, one in both.items()},
        **{f"{name}_interleaved": one.repeat_interleave(2, -1) for name, one in both.items()},
    }


def _room(recipe: Recipe, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tolerance of every array, which allows eight float32 roundings of an angle or a frequency."""
    angles = arrays["positions"].double().amax(0)[:, None] * arrays["inv_freq"]
    table = CLOSE * (1 + angles) * arrays["cos"].double().hypot(arrays["sin"].double())
    return {
        **{key: CLOSE * arrays[key].abs() for key in ("inv_freq", "rope_freqs") if key in arrays},
        **_layouts(table, table),
        "rotated": rotated_room(arrays["query"].double().expand(len(table), -1), table, recipe.get("pairing")),
    }


def rotated_room(x: Float[Tensor, "*T D"], table: Float[Tensor, "*T P"], pairing: Pairing) -> Float[Tensor, "*T D"]:
    """Return the tolerance of each rotated channel: ``table`` times the sum of the magnitudes of both channels of
    its pair.

    ``table`` is the tolerance of cos and sin. The tolerance of channels that do not rotate is 0.
    """
    rotary = x.abs() * (torch.arange(x.shape[-1]) < 2 * table.shape[-1])
    # in each channel, one direction adds both magnitudes, and the other subtracts them
    return torch.maximum(*(rotate(rotary, table, sin, pairing) for sin in (table, -table)))


def assert_vectors(theirs: Mapping[str, Any] | Port, expected: Vectors | str | Path) -> None:
    """Raise an AssertionError that names the mistake if a port's arrays differ from the reference vectors.

    A port is another implementation of the model. The tolerance is eight float32 roundings of an angle, so a port
    that multiplies a position by a float32 frequency passes. The message names the mistake as ``posenc doctor``
    does.

    Args:
        theirs: one or more of the port's arrays, by their names in the file, such as ``{"cos": …, "sin": …}``. If
            only one layer type rotates, names do not need the layer type in front. You can also pass a function
            that takes a layer type, the query ``(D,)`` and positions ``(A, T)``, and returns rotated queries
            ``(T, D)``.
        expected: vectors, or the path of their file.

    Raises:
        AssertionError: numbers or shapes differ.
        InvalidArgument: no array is passed, or the file has no array with one of the names.
    """
    expected = expected if isinstance(expected, Vectors) else load(expected)
    layers = {name: layer for name, layer in expected.header["layers"].items() if "pairing" in layer}
    ours = {
        name: {k[len(name) + 1 :]: v for k, v in expected.arrays.items() if k.startswith(f"{name}.")}
        for name in layers
    }
    if callable(theirs):
        theirs = {f"{k}.rotated": theirs(k, v["query"].clone(), v["positions"].clone()) for k, v in ours.items()}
    short = f"{next(iter(layers))}." if len(layers) == 1 else ""
    theirs = {key if key in expected.arrays else short + key: one for key, one in theirs.items()}
    known = [key for key in expected.arrays if not key.endswith((".query", ".positions"))]
    if not theirs or not set(theirs) <= set(known):
        raise InvalidArgument(f"theirs has {sorted(theirs) or 'no arrays'}; pass one or more of {known}")
    for name, layer in layers.items():
        given = {k: torch.as_tensor(theirs[f"{name}.{k}"]).double() for k in ours[name] if f"{name}.{k}" in theirs}
        ladders = {k: (layers[k]["base"], tuple(v["inv_freq"].tolist())) for k, v in ours.items()}
        _check(name, canonical(parse(layer["encoding"]), full=True), given, ours[name], ladders)


def _check(
    name: str,
    recipe: Recipe,
    theirs: Mapping[str, Tensor],
    ours: Mapping[str, Tensor],
    ladders: Mapping[str, tuple[float, tuple[float, ...]]],
) -> None:
    """Check that a port's arrays for one layer type are within the tolerances."""
    room = _room(recipe, ours)
    for key, array in theirs.items():
        assert array.shape == ours[key].shape, (
            f"{name}.{key} has shape {tuple(array.shape)}, but the file has {tuple(ours[key].shape)}"
        )
    for key, array in theirs.items():
        apart = (array - ours[key].double()).abs()
        if not bool((apart <= room[key]).all()):
            place = f" at position {ours['positions'][0, apart.amax(1).argmax()]}" if apart.ndim == 2 else ""
            raise AssertionError(
                f"{name}.{key} is off by {float(apart.max()):.3g}{place}: {_cause(recipe, theirs, ours, ladders)}"
            )


def _cause(
    recipe: Recipe,
    theirs: Mapping[str, Tensor],
    ours: Mapping[str, Tensor],
    ladders: Mapping[str, tuple[float, tuple[float, ...]]],
) -> str:
    """Describe the mistake that explains the numbers of a port."""
    given = {**ours, **theirs}
    numbers: dict[str, Any] = {name: given[name] for name in ("inv_freq", "rotated") if name in theirs}
    if "rotated" in theirs:
        numbers["x"] = ours["query"].expand_as(theirs["rotated"])
    if "cos_sin" in theirs:
        numbers |= dict(zip(("cos", "sin"), theirs["cos_sin"].chunk(2, -1), strict=True))
    for end in ("_interleaved", "_half", ""):
        numbers |= {name: given[name + end] for name in ("cos", "sin") if {f"cos{end}", f"sin{end}"} & set(theirs)}
    if not numbers:
        return "to find the mistake, also pass inv_freq, rotated, or cos and sin"
    numbers["positions"] = ours["positions"]
    return diagnosed([search(Expected(recipe, ladders=ladders), numbers)]).text
