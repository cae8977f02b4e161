"""Runs a learner's listing in a process of its own: ``python -m posenc.teaching.listing FILE OUT``.

Calls the functions that it has by the names of the lessons, and writes what they return, as tensors, to OUT.
"""

import inspect
import runpy
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SIZES = ((16, 8), (50, 12))
"""Positions and width of a table of codes."""
HEADS = ((8, 6), (12, 6))
"""Heads and length of a bias."""
SHAPES = ((1, 2, 16, 8), (1, 16, 8))
"""Of a vector to rotate: with heads, or as one listing has it."""
WIDTH, LENGTH = ("dim", "model", "width"), ("len", "seq", "max", "end")
"""What arguments are called that say how wide, or how long."""


def vector(shape: tuple[int, ...]) -> Tensor:
    """What is rotated, the same in both processes."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def ordered(function: Callable[..., Any], second: tuple[str, ...], *numbers: int) -> tuple[int, ...]:
    """The numbers, the other way round where the first argument has a name that the ``second`` has."""
    first = next(iter(inspect.signature(function).parameters), "")
    return numbers[::-1] if any(part in first for part in second) else numbers


def table(function: Callable[..., Any], names: dict[str, Any]) -> dict[str, Any]:
    """``positional_encoding(max_len, d_model)``."""
    return {str(size): function(*ordered(function, WIDTH, *size)) for size in SIZES}


def bias(function: Callable[..., Any], names: dict[str, Any]) -> dict[str, Any]:
    """``alibi_bias(n_heads, seq_len)``."""
    return {str(size): function(*ordered(function, LENGTH, *size)) for size in HEADS}


def rotation(function: Callable[..., Any], names: dict[str, Any]) -> dict[str, Any]:
    """``apply_rope(x)``, ``apply_rope(x, positions)``, or with the tables of ``precompute_rope_frequencies``."""
    given = list(inspect.signature(function).parameters.values())
    required = [each for each in given if each.default is each.empty]
    prepare = names.get("precompute_rope_frequencies")
    results, errors = {}, []
    for shape in SHAPES:
        length, head_dim = shape[-2:]
        rest: tuple[Any, ...] = ()
        if len(required) > 1 and prepare is not None:
            tables = prepare(*ordered(prepare, LENGTH, head_dim, length))
            rest = tables if isinstance(tables, tuple) and len(required) > 2 else (tables,)
        elif len(required) > 1:
            rest = (torch.arange(length),)
        try:
            results[str(shape)] = function(vector(shape), *rest)
        except Exception as error:  # one of the two shapes may not be meant
            errors.append(error)
    if not results:
        raise errors[0]
    return results


CALLS = {
    "positional_encoding": table,
    "sinusoidal_pe": table,
    "apply_rope": rotation,
    "alibi_bias": bias,
}


def main(path: str, out: str) -> None:
    """Run the listing and keep what its functions return, or why one does not."""
    names = runpy.run_path(path)
    answers: dict[str, Any] = {}
    for name, call in CALLS.items():
        if callable(names.get(name)):
            try:
                returned = call(names[name], names)
                answers[name] = {case: torch.as_tensor(value).detach() for case, value in returned.items()}
            except Exception as error:  # whatever a listing raises is told, and the others are still asked
                answers[name] = f"{type(error).__name__}: {error}"
    torch.save(answers, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
