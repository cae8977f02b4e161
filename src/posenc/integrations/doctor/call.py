"""Calls a port's function with arguments that fit its signature.

The command is ``posenc doctor MODEL --call my_port.py:apply_rope``. The file runs in a separate process with
limits on time and memory, in an empty folder. Run only code that you trust. Arguments are recognised by the names
that ports usually give them, such as ``q``, ``cos`` and ``position_ids``. Vectors are tried as (B, H, T, D), (B,
T, H, D), (T, B, H, D), (H, T, D), (T, H, D), (B, T, D) and (T, D). If the file has functions or classes that make
tables of cos and sin, the tables of all of them are tried. Every layer type of a model is tested. If the function
has an argument for the layer, it is called for all layers of the type; it is also called for the layers that have
no positional encoding.
"""

import inspect
import itertools
import os
import pickle
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.doctor import expected, search
from posenc.integrations.doctor.port_tables import TABLES, called, tables_of
from posenc.integrations.doctor.search import SHOWN, Diagnosis, Expected, Search, diagnosed
from posenc.integrations.doctor.signatures import (
    BATCH,
    HEAD_DIM,
    LATER,
    MULTIPLES,
    NEAR,
    OFFSETS,
    POSITIONS,
    X_HEADS,
    first,
    overridden,
    takes,
    values,
)
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.words import layers_in_words
from posenc.scaling import LengthScaling

SECONDS, MEMORY = 60, 8 * 2**30
LAYOUTS = ("BHTD", "BTHD", "TBHD", "HTD", "THD", "BTD", "TD")
Way = tuple[Tensor, list[Any], str]
"""The vectors x, the tables that are passed with them, and a remark for the diagnosis."""
UNTESTED = Diagnosis(True, (), "not tested")
RANGES = 4
"""The maximum number of ranges in a list of layers."""
RETURNED = {
    ("rotary", 1): "inv_freq",
    ("alibi", 1): "slopes",
    ("alibi", 3): "bias",
    ("sinusoidal", 2): "table",
    ("t5", 1): "buckets",
}
"""The meaning of a returned array, by the name of the encoding and the array's number of axes."""


def diagnose_call(model: ModelPositions | str, path: Path, name: str, *, layer: str | None = None) -> Diagnosis:
    """Diagnose a port's function, which may have any signature, for one or all layer types of a model.

    Args:
        path, name: the file, and the name of a function or class in the file.

    Raises:
        InvalidArgument: the file or function is missing, the file does not finish, or every call to the function
            fails.
    """
    if not path.is_file():
        raise InvalidArgument(f"--call {path}:{name}: there is no file {path}")
    types = expected(model)
    asked = {layer: types[one_of("layer", layer, types)]} if layer else types
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answers"
        run = subprocess.run(
            [sys.executable, "-m", __name__, str(path.resolve()), name, str(out), str(SECONDS)],
            cwd=folder,
            env=os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
            input=pickle.dumps(asked),
            capture_output=True,
        )
        if out.exists():
            return together(dict.fromkeys(types, UNTESTED) | pickle.loads(out.read_bytes()))
    if run.returncode == -signal.SIGALRM:
        raise InvalidArgument(f"{path} did not finish within {SECONDS} s; remove slow code, such as training")
    last = (run.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {run.returncode}"])[-1]
    channels = dict.fromkeys(str(each.recipe.get("head_dim") or HEAD_DIM) for each in asked.values())
    raise InvalidArgument(
        f"{path}:{name} returns no numbers in calls with {' or '.join(channels)} channels per head: {last}"
    )


def together(answers: Mapping[str, Diagnosis], separator: str = "\n") -> Diagnosis:
    """Combine diagnoses into one. If there are several, the text of each follows its key."""
    causes = dict.fromkeys(cause for answer in answers.values() for cause in answer.causes)
    text = separator.join(f"{name}: " * (len(answers) > 1) + str(answer) for name, answer in answers.items())
    return Diagnosis(all(answer.right for answer in answers.values()), tuple(causes), text)


def vectors(channels: int, layout: str) -> Tensor:
    """Return random vectors with these axes. If a layout lacks axes of the largest one, its numbers are the first
    along these axes.
    """
    sizes = {"B": BATCH, "H": X_HEADS, "T": len(NEAR), "D": channels}
    missing = [axis for axis in sizes if axis not in layout]
    largest = torch.randn(list(sizes.values()), generator=torch.Generator().manual_seed(0))
    return largest.permute(*map("BHTD".index, (*missing, *layout)))[(0,) * len(missing)].contiguous()


def places(asked: Expected, target: Any) -> tuple[Tensor, ...]:
    """Return the positions to try, in this order. If a model has several axes, they include positions that differ
    between the axes, unless no argument of the function ``target`` depends on positions.
    """
    axes = range(max(asked.recipe.get("axes").axis_of_pair) + 1) if asked.recipe.get("axes") else ()
    far, near = ([torch.stack([at.roll(axis) for axis in axes])] if axes else [] for at in (POSITIONS[0], NEAR))
    short = (*near * takes(target, *TABLES), NEAR)
    return (*far, *POSITIONS[:-1], *short) if takes(target, "positions") else short


def searches(names: Mapping[str, Any], name: str, asked: Expected) -> list[Search]:
    """Return a ``Search`` for every order of axes and every table with which a call of the function succeeds.

    A function that takes positions is called with the first entry of ``POSITIONS`` that it accepts. Other functions
    are compared with the model at the positions ``NEAR``. If some orders and tables give correct queries, only the
    searches for these are returned. In latent attention, the queries and keys passed to the function have only the
    rotated channels, or all channels if every such call fails. In models that rotate a part of the head, they have
    all channels, or only the rotating ones if such calls fail, or if tables are passed and no result is right.
    """
    channels = asked.recipe.get("head_dim") or asked.recipe.get("width") or HEAD_DIM
    asked = replace(asked, recipe=asked.recipe.with_(head_dim=channels))
    errors = list[Exception]()
    target = called(names[name], asked, errors)

    def found(asked: Expected, at: Tensor, ways: Iterable[Way]) -> list[tuple[Way, list[Search]]]:
        worked = dict[bytes, tuple[Way, list[Search]]]()
        for x, tables, note in ways:
            made = partial(results, asked, x, at, note)
            for parts in first(target, values(asked, x, at, tables), errors, overridden(asked), made):
                head = parts[0].rows[0]["y"][: len(NEAR)].tobytes()  # equal unless the port confuses axes
                worked.setdefault(head, ((x, tables, note), parts))
        return list(worked.values())

    tables_at = cache(lambda where: tables_of(names, name, target, asked, where))

    def ways(width: int, where: Tensor) -> list[Way]:
        return [
            (
                vectors(width, layout) * (asked.recipe.name != "sinusoidal" or layout == "TD"),
                tables,
                f", x as ({', '.join(layout)})" * (len(layout) > 2) + note,
            )
            for layout, (tables, note) in itertools.product(layouts, tables_at(where))
        ]

    wanted, layouts = places(asked, target), LAYOUTS if takes(target, "vector") else ("",)
    tried = (
        (at, found(asked, at, ways(width, NEAR if takes(target, "positions") else at)))
        for width in filter(None, (channels, asked.query_dim))
        for at in wanted
    )
    at, compared = next(((at, worked) for at, worked in tried if worked), (NEAR, []))
    right = [(way, parts) for way, parts in compared if parts[0].fits({})]
    rotating, narrow = asked.recipe.get("rotary_dim") or channels, list[Search]()
    if rotating < channels and not right and (not compared or takes(target, *TABLES)):
        with suppress(Exception):  # the error that is raised is that of whole heads
            narrow = searches(names, name, replace(asked, recipe=asked.recipe.with_(head_dim=rotating)))
    for each in narrow:
        each.note += f", if it gets only the {rotating} channels that rotate"
    if not (compared or narrow):
        raise errors[0]
    compared, reached, last = right or compared, at.max(), wanted[0].max()
    for way, (part, *_) in compared:
        if reached < last and not way[1]:  # given tables are short
            part.note += f", at positions up to {reached:,} only; positions up to {last:,} raise an error"
        if takes(target, "start", needs=False) and not takes(target, "positions"):
            for _, later in found(asked, LATER, [way]):  # one answer must explain both starts
                part.rows += later[0].rows
    if takes(target, "positions") and isinstance(asked.recipe.get("scaling"), LengthScaling):
        shorter = found(replace(asked, lengths=(*asked.lengths, len(NEAR))), NEAR, [way for way, _ in right])
        compared = [(way, parts) for way, parts in shorter if not parts[0].fits({})] or compared
    return [next((part for part in parts if not part.fits({})), parts[0]) for _, parts in compared] + narrow


def by_layers(names: Mapping[str, Any], name: str, asked: Expected) -> dict[str, list[Search]]:
    """Group the layers of one type by the numbers that the port computes for them.

    Each key of the result describes the layers of a group, such as "layers 0 to 2", and its value contains the
    searches of this group. If the function has no argument for the layer, the only key is "". Layers without
    positional encoding that the port rotates by mistake, if there are any, form the first groups.
    """
    functions = [each for key, each in names.items() if inspect.isfunction(each) or key == name]
    if not asked.indices or not any(takes(function, "layer", needs=False) for function in functions):
        return {"": searches(names, name, asked)}
    groups = dict[tuple[bool, bytes], tuple[list[int], list[Search]]]()
    for i in (*asked.unrotated, *asked.indices):
        rotates = i in asked.indices
        tried = searches(names, name, replace(asked, indices=(i,), rotates=rotates))
        if rotates or not any(each.fits({}) for each in tried):
            groups.setdefault((rotates, tried[0].rows[0]["y"].tobytes()), ([], tried))[0].append(i)
    return {layers_in_words(layers, RANGES): tried for layers, tried in groups.values()}


def answered(groups: Mapping[str, list[Search]]) -> Diagnosis:
    """Return the diagnosis of a layer type. It has several parts if the port's numbers differ between layers of
    this type.
    """
    return together(
        {
            layers: diagnosed(tried)
            if i <= SHOWN
            else Diagnosis(False, (), "yet another result, which was not diagnosed")
            for i, (layers, tried) in enumerate(groups.items())
        },
        "; ",
    )


def results(asked: Expected, x: Tensor, at: Tensor, note: str, returned: Any) -> list[Search]:
    """Return searches for the arrays that a port returned. The shapes of the arrays show what each array means."""
    several = isinstance(returned, tuple | list) and not isinstance(returned[0], float)
    arrays = [torch.as_tensor(part).detach() for part in (returned if several else [returned]) if part is not None]
    if not arrays:
        raise InvalidArgument("the function returns None; return the vectors, also if they are rotated in place")
    vectors = dict(zip(MULTIPLES, (array for array in arrays if array.shape == x.shape), strict=False))
    if asked.recipe.name == "sinusoidal" and x.ndim and arrays[0].shape == x.shape:  # the table is added to x
        tables = (arrays[0] - x).movedim(x.shape.index(len(NEAR)), -2).reshape(-1, len(NEAR), x.shape[-1])
        if not torch.equal(tables, tables[:1].expand_as(tables)):
            raise InvalidArgument("the function adds other rows of its table to each sequence")
        return [search(asked, {"table": tables[0]}, note)]
    if x.ndim and arrays[0].shape == x.shape:
        if torch.equal(vectors.get("keys", arrays[0]), 2 * arrays[0]):  # both use the same channels
            asked = replace(asked, free=asked.free | {"written"})
            vectors.pop("keys", None)
        elif "keys" in vectors:
            asked = replace(asked, free=asked.free - {"written"})
        return [
            search(
                replace(asked, rotates=asked.rotates and part != "values"),
                {"positions": at, "x": MULTIPLES[part] * x, "rotated": rotated},
                (f", of the {part}{note}" if "keys" in vectors or part == "values" else note)
                + "; the queries are right" * (part != "queries"),  # the first wrong part is reported
            )
            for part, rotated in vectors.items()
        ]
    if asked.recipe.name == "rotary" and (len(arrays) == 2 or arrays[0].is_complex()):
        return [search(asked, {"positions": at, **dict(zip(("cos", "sin"), arrays, strict=False))}, note)]
    array = (
        arrays[0].flatten()  # MPT's slopes have shape (1, H, 1, 1)
        if arrays[0].numel() == max(arrays[0].shape, default=0)
        else arrays[0][0]
        if arrays[0].ndim > 1 and len(arrays[0]) == 1
        else arrays[0]
    )
    meaning = RETURNED.get((asked.recipe.name, array.ndim), "result")
    return [search(asked, {meaning: array} | ({"offsets": OFFSETS} if meaning == "buckets" else {}), note)]


def main(path: str, name: str, out: str, seconds: str) -> None:
    """Run the file, call the function in every way that works, and save the diagnosis of every layer type."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    asked = pickle.load(sys.stdin.buffer)
    signal.alarm(int(seconds))
    names = runpy.run_path(path)
    one_of("function", name, [key for key, value in names.items() if callable(value)])
    searched = {layer: by_layers(names, name, right) for layer, right in asked.items()}
    signal.alarm(0)
    Path(out).write_bytes(pickle.dumps({layer: answered(groups) for layer, groups in searched.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
