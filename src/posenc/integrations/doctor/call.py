"""Calls a port's function with any signature: ``posenc doctor MODEL --call my_port.py:apply_rope``.

The file runs in a separate process with limits on time and memory, in an empty folder. Run only code that you
trust. Arguments are recognised by their usual names in ports. Vectors are tried as (B, H, T, D), (B, T, H, D),
(T, B, H, D), (H, T, D), (T, H, D), (B, T, D) and (T, D). If the file has functions that make tables, all of these
functions are tried. Every layer type of a model is tested. If the function takes a layer, it is called for all
layers of the type, and for all layers without positional encoding.
"""

import inspect
import itertools
import os
import pickle
import re
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from posenc.arguments import one_of, parameters_of
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.doctor import expected, search
from posenc.integrations.doctor.search import SHOWN, Diagnosis, Expected, Search, diagnosed
from posenc.integrations.doctor.signatures import (
    BATCH,
    FAR,
    HEAD_DIM,
    LATER,
    MIDWAY,
    MULTIPLES,
    NEAR,
    NEARER,
    OFFSETS,
    OVERRIDDEN,
    X_HEADS,
    first,
    meant,
    takes,
    values,
)
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.scaling import LengthScaling

SECONDS, MEMORY = 60, 8 * 2**30
UNSCALED = 4096
"""The number of positions in a table that a function of the file makes, unless a scaling needs another number."""
LAYOUTS = ("BHTD", "BTHD", "TBHD", "HTD", "THD", "BTD", "TD")
MAKER = (
    r"(?=.*(compute|build|get|make|create|init|prepare)).*(freq|rope|rot|cis|cos|sin|theta|pos|table)"
    r"|.*(freqs(_cis)?|cos_sin|tables?|cache)$"
)
"""A pattern for the names of functions that make tables."""
Way = tuple[str, tuple[list[Any], str]]
"""The order of the axes of x, and tables in several forms with a note."""
UNTESTED = Diagnosis(True, (), "not tested")
RANGES = 4
"""The maximum number of ranges in a list of layers."""
UNSEARCHED = Diagnosis(False, (), "yet other numbers, which were not searched")
RETURNED = {
    ("rotary", 1): "inv_freq",
    ("alibi", 1): "slopes",
    ("alibi", 3): "bias",
    ("sinusoidal", 2): "table",
    ("t5", 1): "buckets",
}
"""The meaning of a returned array, by the name of the encoding and the array's number of axes."""


def diagnose_call(model: ModelPositions | str, path: Path, name: str, *, layer: str | None = None) -> Diagnosis:
    """Diagnose a port's function with any signature, for one or all layer types of a model.

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
        f"{path}:{name} returns no numbers: {last}; the call used {' or '.join(channels)} channels per head"
    )


def together(answers: Mapping[str, Diagnosis], separator: str = "\n") -> Diagnosis:
    """Combine answers into one answer, with the name of each part if there are several."""
    parts = [f"{name}: {answer}" for name, answer in answers.items()]
    causes = dict.fromkeys(cause for answer in answers.values() for cause in answer.causes)
    text = separator.join(parts) if len(parts) > 1 else "".join(map(str, answers.values()))
    return Diagnosis(all(answer.right for answer in answers.values()), tuple(causes), text)


def shortened(table: Any, rows: int) -> Any:
    """Return the first rows of a table or of a tuple of tables, one row for each position in ``NEAR``."""
    if isinstance(table, tuple):
        return tuple(shortened(part, rows) for part in table)
    axes = (slice(len(NEAR)) if size == rows else slice(None) for size in getattr(table, "shape", ()))
    return table[tuple(axes)] if hasattr(table, "shape") else table


def tables_of(makers: Mapping[str, Any], asked: Expected) -> list[tuple[list[Any], str]]:
    """Return the tables that the file's functions make, or else the model's tables in common layouts.

    Each table is returned as a list of forms (for one row of tokens and for a batch), together with a note for the
    answer. The note names the table's origin and the functions of the file that were not tested.
    """
    tables, untested = list[tuple[list[Any], str]](), ""
    rows, scaling = UNSCALED, asked.recipe.get("scaling")
    if isinstance(scaling, LengthScaling):  # the numbers are expected for the longest input
        rows = max(asked.lengths, default=UNSCALED)
    elif hasattr(scaling, "original_length"):  # some code applies the scaling only to longer tables
        rows = scaling.original_length + len(NEAR)
    first_rows, over = partial(shortened, rows=rows), ("length", *OVERRIDDEN)
    for name, maker in makers.items():
        errors: list[Exception] = []
        known = [
            values(asked) | {"positions": [at, rows], "length": [rows]} for at in (NEAR, NEAR.expand(BATCH, -1))
        ]
        if forms := [table for each in known for table in first(maker, each, errors, first_rows, over)]:
            tables.append((forms, f", with {name}"))
        else:
            untested += f"; {name} was not tested: {str(errors[0]).partition(';')[0]}"
    if not tables and asked.recipe.name == "rotary":
        longest = next(reversed(asked.lengths), None)
        rotary = cast(Rotary, build(asked.recipe, ModelShape(), total_length=longest))
        at = NEAR.expand(rotary.axes, -1) if rotary.axes > 1 else NEAR
        turns = torch.complex(*rotary.tables(at))
        wide = (torch.cat((turns, turns), -1), turns.repeat_interleave(2, -1), turns)
        layouts: list[list[Any]] = [[(t.real, t.imag) for t in (w.expand(BATCH, -1, -1), w)] for w in wide]
        tables = [(forms, ", with posenc's cos and sin") for forms in ([turns], *layouts)]
    return [(forms, note + untested) for forms, note in tables]


def searches(names: Mapping[str, Any], name: str, asked: Expected) -> list[Search]:
    """Return a ``Search`` for every layout and table with which the function works.

    Positions are those that the function accepts.
    """
    channels = asked.recipe.get("head_dim") or asked.recipe.get("width") or HEAD_DIM
    asked = replace(asked, recipe=asked.recipe.with_(head_dim=channels))
    target, errors = names[name], list[Exception]()
    if inspect.isclass(target):
        made = first(target, values(asked), errors)
        target = next((getattr(module, "forward", module) for module in made), target)
    makers = {
        key: maker
        for key, maker in names.items()
        if key != name and inspect.isfunction(maker) and re.match(MAKER, key.lower())
    }
    tables = (takes(target, "cos", "sin", "table") and tables_of(makers, asked)) or [([], "")]
    ways = list(itertools.product(LAYOUTS if takes(target, "vector") else ("",), tables))
    sizes = {"B": BATCH, "H": X_HEADS, "T": len(NEAR), "D": asked.recipe.get("head_dim")}
    axes = asked.recipe.get("axes") if asked.recipe.name == "rotary" else None
    grid = [torch.stack([FAR.roll(axis) for axis in range(max(axes.axis_of_pair) + 1)])] if axes else []
    wanted = (*grid, FAR, MIDWAY, NEARER, NEAR) if takes(target, "positions") else (NEAR,)

    replaced = {
        f", with {key}={base:.10g} instead of its default {each.default:.10g}"
        for function in (names[name], *(makers.values() if takes(target, "cos", "sin", "table") else ()))
        for key, each in parameters_of(function).items()
        for base in values(asked)["base"]
        if meant(key, "base") and isinstance(each.default, int | float) and each.default != base
    }
    largest = torch.randn(list(sizes.values()), generator=torch.Generator().manual_seed(0))

    def found(asked: Expected, at: Tensor, ways: Iterable[Way]) -> Iterator[tuple[Way, Search]]:
        heads = set[tuple[str, bytes]]()
        for layout, (forms, whose) in ways:
            order = [axis for axis in sizes if axis in layout]
            x = largest[tuple(slice(None) if axis in layout else 0 for axis in sizes)] if layout else None
            x = x.permute([order.index(axis) for axis in layout]).contiguous() if x is not None else None
            note = f", x as ({', '.join(layout)})" * (len(layout) > 2) + "".join((whose, *sorted(replaced)))
            for each in first(target, values(asked, x, at, forms), errors, partial(_search, asked, x, at, note)):
                head = each.rows[0]["y"][: len(NEAR)].tobytes()
                if (each.part, head) not in heads:  # other layouts give the same numbers if no axis is mistaken
                    yield (layout, (forms, whose)), each
                heads.add((each.part, head))

    tried = ((at, list(found(asked, at, ways))) for at in wanted)
    at, compared = next(((at, worked) for at, worked in tried if worked), (NEAR, []))
    if not compared:
        raise errors[0]
    for way, each in compared:
        if at.max() < wanted[0].max() and not way[1][0]:  # given tables are short
            each.note += (
                f", at positions up to {at.max():,} only; positions up to {wanted[0].max():,} raise an error"
            )
    right = [port for port in compared if port[1].fits({})]
    if right and takes(target, "positions") and isinstance(asked.recipe.get("scaling"), LengthScaling):
        brief = replace(asked, lengths=(*asked.lengths, len(NEAR)))
        shorter = found(brief, NEAR, [way for way, _ in right])
        compared = [port for port in shorter if not port[1].fits({})] or compared
    elif takes(target, "start", needs=False) and not takes(target, "positions"):
        compared = right or [port for port in compared if port[1].fitting(1)] or compared
        for way, each in compared:
            for _, other in found(asked, LATER, [way]):  # one answer must explain both starts
                each.rows += other.rows
    turned = [
        way for way in compared if not np.array_equal(way[1].rows[0].get("x", np.empty(0)), way[1].rows[0]["y"])
    ]
    compared = turned or compared  # a wrong order of axes may leave too few tokens to rotate
    later = [each for _, each in compared if each.part in ("keys", "values")]  # the queries are right
    return later or [each for _, each in compared]


def by_layers(names: Mapping[str, Any], name: str, asked: Expected) -> dict[str, list[Search]]:
    """Group the layers of this type for which the port computes the same numbers.

    Each ``Search`` of a group is listed under the group's layer numbers. Layers that the port rotates although they
    have no positional encoding come first.
    """
    functions = [each for key, each in names.items() if inspect.isfunction(each) or key == name]
    if not asked.indices or not any(takes(function, "layer", needs=False) for function in functions):
        return {"": searches(names, name, asked)}
    groups = defaultdict[tuple[bool, bytes], list[int]](list)
    tried = dict[int, list[Search]]()
    for i in (*asked.unrotated, *asked.indices):
        rotates = i in asked.indices
        tried[i] = searches(names, name, replace(asked, indices=(i,), rotates=rotates))
        if rotates or not any(each.fits({}) for each in tried[i]):
            groups[rotates, tried[i][0].rows[0]["y"].tobytes()].append(i)
    return {f"layer{'s' * (len(layers) > 1)} {in_ranges(layers)}": tried[layers[0]] for layers in groups.values()}


def in_ranges(numbers: Sequence[int]) -> str:
    """Return increasing numbers as ranges in words, such as 0 to 2, 4 to 6 … 32 to 34."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    ranges = [f"{start} to {end}" if end > start else f"{start}" for start, end in zip(starts, ends, strict=True)]
    return ", ".join(ranges) if len(ranges) <= RANGES else f"{', '.join(ranges[: RANGES - 1])} … {ranges[-1]}"


def answered(groups: Mapping[str, list[Search]]) -> Diagnosis:
    """Return the answer for a layer type, in parts if the port computes different numbers for its layers."""
    return together(
        {
            layers: diagnosed(tried) if i <= SHOWN else UNSEARCHED
            for i, (layers, tried) in enumerate(groups.items())
        },
        "; ",
    )


def _search(asked: Expected, x: Tensor | None, at: Tensor, note: str, returned: Any) -> Search:
    """Return the ``Search`` for a port's return value, whose meaning is recognised from its shape."""
    several = isinstance(returned, tuple | list) and not isinstance(returned[0], float)
    parts = [part for part in returned if part is not None] if several else [returned]
    array, *others = (torch.as_tensor(part).detach() for part in parts)
    if x is not None and array.shape == x.shape:
        vectors = [other for other in (array, *others) if other.shape == x.shape]
        by_part = dict(zip(MULTIPLES, vectors, strict=False))
        if torch.equal(by_part.get("keys", array), 2 * array):  # keys are written wherever queries are
            asked = replace(asked, free=asked.free | {"written"})
            by_part.pop("keys", None)
        searched = list[Search]()
        for part, rotated in by_part.items():
            expectation = replace(asked, rotates=asked.rotates and part != "values")
            numbers = {"positions": at, "x": MULTIPLES[part] * x, "rotated": rotated}
            searched.append(
                search(expectation, numbers, note, part if "keys" in by_part or part == "values" else "")
            )
            if not searched[-1].fits({}):
                return searched[-1]
        return searched[-1 if "values" not in by_part else -2]
    if asked.recipe.name == "rotary" and (len(others) == 1 or array.is_complex()):
        cos, sin = (array, *others) if others else (array.real, array.imag)
        numbers = {"positions": at, "cos": cos, "sin": sin}
    else:
        array = array[0] if array.ndim > 1 and len(array) == 1 else array
        numbers = {RETURNED.get((asked.recipe.name, array.ndim), "result"): array}
        numbers |= {"offsets": OFFSETS} if "buckets" in numbers else {}
    return search(asked, numbers, note)


def main(path: str, name: str, out: str, seconds: str) -> None:
    """Run the file, call the function in every way that works, and save the answer for every layer type."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    asked = pickle.load(sys.stdin.buffer)
    signal.alarm(int(seconds))
    names = runpy.run_path(path)
    one_of("function", name, [key for key, value in names.items() if callable(value)])
    searched = {layer: by_layers(names, name, right) for layer, right in asked.items()}
    signal.alarm(0)
    answers = {layer: answered(groups) for layer, groups in searched.items()}
    Path(out).write_bytes(pickle.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
