"""Makes the tables that a port's function takes: with the functions and classes of the port's file, or, if it has
none, with posenc.
"""

import inspect
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from posenc.arguments import parameters_of
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.rotary import Rotary
from posenc.integrations.doctor.search import Expected
from posenc.integrations.doctor.signatures import BATCH, HEAD_DIM, NEAR, first, meant, overridden, takes, values
from posenc.scaling import LengthScaling

UNSCALED = 4096
"""The number of positions for which the port's functions make tables, unless a scaling needs another number."""
MAKER = (
    r"(?=.*(compute|build|get|make|create|init|prepare)).*(freq|rope|rot|cis|cos|sin|theta|pos|table)"
    r"|.*(freqs(_cis)?|cos_sin|tables?|cache|precompute|(rope|rot(ary)?)(_?(pos_?)?emb(edding)?)?)$"
)
"""A pattern for the names of functions and classes that make tables."""
TABLES = ("cos", "sin", "table")
"""The meanings of arguments that are tables."""
Tables = tuple[list[Any], str]
"""One set of tables in one or two shapes (for one sequence and for a batch), and a remark for the diagnosis."""


def called(target: Any, asked: Expected, errors: list[Exception]) -> Any:
    """Return ``target``, or, if it is a class that can be instantiated, the ``forward`` of an instance."""
    built = (
        first(
            target,
            values(asked),
            errors,
            overridden(asked),
            lambda module: module.eval() if isinstance(module, torch.nn.Module) else module,  # without dropout
        )
        if inspect.isclass(target)
        else []
    )
    return next((getattr(module, "forward", module) for module in built), target)


def is_table(returned: Any) -> bool:
    """Return whether the result of a function consists of tables of cos and sin. Frequencies do not count, because
    they have only one axis. An array of zeros does not count either: functions are called with vectors of zeros, so
    zeros are probably rotated vectors and not tables.
    """
    parts = returned if isinstance(returned, tuple) else (returned,)
    return all(getattr(part, "ndim", 0) > 1 and part.any() for part in parts)


def tables_of(names: Mapping[str, Any], name: str, target: Any, asked: Expected, where: Tensor) -> list[Tables]:
    """Return the tables that the file's functions and classes make at the positions ``where``, ``(T,)`` or
    ``(A, T)``, or, if the file has no such functions, the model's tables in common layouts.

    Each entry contains one set of tables, in one or two shapes, and a remark for the diagnosis. The remark names
    the function that made the tables, functions of the file that could not be tested, and any base that was passed
    in place of a function's default base. If the function ``target`` needs no tables, the only entry contains no
    tables.
    """
    takes_tables = takes(target, *TABLES)
    makers = {
        key: maker
        for key, maker in names.items()
        if takes_tables and key != name and re.match(MAKER, key.lower())
        if inspect.isclass(maker) or inspect.isfunction(maker)
        if not (takes(maker, "vector") and takes(maker, *TABLES))  # which rotates
    }
    replaced = {
        f", if it is called with {key}={base:.10g} instead of its default {each.default:.10g}"
        for function in (names[name], *makers.values())
        for key, each in parameters_of(function).items()
        for base in values(asked)["base"]
        if meant(key, "base") and "base" not in asked.free
        if isinstance(each.default, int | float) and each.default != base
    }
    tables, notes = list[Tables](), "".join(sorted(replaced))
    scaling = asked.recipe.get("scaling")
    rows = (
        max(asked.lengths, default=UNSCALED)  # the expected numbers are those for the longest input
        if isinstance(scaling, LengthScaling)
        else scaling.original_length + len(NEAR)  # some code applies the scaling only to longer tables
        if hasattr(scaling, "original_length")
        else UNSCALED
    )

    def first_rows(table: Any) -> Any:
        return (
            table[tuple(slice(len(NEAR) if size == rows else None) for size in table.shape)]
            if hasattr(table, "shape")
            else table
        )

    for maker_name, maker in makers.items():
        errors: list[Exception] = []
        made_by = called(maker, asked, errors)
        forms = [
            table
            for at in (where, where[..., None, :].expand(*where.shape[:-1], BATCH, -1))
            if where.ndim == 1 or takes(made_by, "positions")
            for table in first(
                made_by,
                values(asked, torch.zeros(*at.shape, HEAD_DIM)) | {"positions": [at, rows], "length": [rows]},
                errors,
                ("length", *overridden(asked)),
                partial(tree_map, first_rows),
            )
        ]
        if made := list(filter(is_table, forms)):
            tables.append((made, f", with {maker_name}"))
        elif not forms and errors:
            notes += f"; {maker_name} was not tested: {str(errors[0]).partition(';')[0]}"
    if takes_tables and not tables and asked.recipe.name == "rotary" and not (makers and where.ndim > 1):
        rotary = cast(Rotary, build(asked.recipe, ModelShape(), total_length=(None, *asked.lengths)[-1]))
        turns = torch.complex(*rotary.tables(where.expand(rotary.axes, -1) if rotary.axes > 1 else where))
        wide = (torch.cat((turns, turns), -1), turns.repeat_interleave(2, -1), turns)
        layouts: list[list[Any]] = [[(t.real, t.imag) for t in (w.expand(BATCH, -1, -1), w)] for w in wide]
        tables = [
            *((forms, ", with posenc's cos and sin") for forms in ([turns], *layouts)),
            *(([w.angle(), w.angle()[:, None, None]], ", with posenc's angles") for w in wide),  # as in Megatron
        ]
    return [(forms, note + notes) for forms, note in tables or [([], "")]]
