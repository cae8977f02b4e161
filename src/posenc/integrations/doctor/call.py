"""Calls a port's own function with any signature: ``posenc doctor MODEL --call my_port.py:apply_rope``.

The file runs in a separate process with limits on time and memory, in an empty folder; run only what you trust.
Arguments are recognised by their usual names in ports. Vectors are tried as (B, H, T, D), (B, T, H, D),
(T, B, H, D), (H, T, D), (T, H, D), (B, T, D) and (T, D); tables come from the file's own function if it has one.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.integrations.doctor.doctor import expected, search
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.search import Diagnosis, Expected, Search, diagnosed
from posenc.integrations.huggingface.model_positions import ModelPositions

SECONDS, MEMORY = 60, 8 * 2**30
WAYS = 24
"""The most bindings that are tried per function."""
HEAD_DIM = 64
"""Channels of a head if the encoding's text has no head_dim."""
BATCH, X_HEADS, HEADS = 2, 5, 12
"""X_HEADS is no number of axes of positions, which would broadcast. HEADS is for functions that compute something
for all heads; it is no power of two, for which ALiBi has other slopes."""
FAR = torch.tensor((0, 1, 2, 3, 5, 8, 13, 100, 1000, 4095, 70_000))
"""Positions for a function with an argument for them; functions with their own table are called at 0, 1, 2 …"""
NEAR = torch.arange(len(FAR))
OFFSETS = torch.arange(-300, 301)
LAYOUTS = ("BHTD", "BTHD", "TBHD", "HTD", "THD", "BTD", "TD")
VECTOR = (
    r"^(x|q|k|t|v|xq|xk|(q|k)_(embed|pe|rot|rope)|quer(y|ies)|keys?"
    r"|vec(tor)?|tensor|inp(ut)?|hidden\w*|\w+_states)$"
)
POSITIONS = r"^(pos|positions?|position_ids|pos_ids|input_pos|indices|idx|m|start_pos)$"
BASE = r"^(base|theta|rope_theta|theta_base|rope_base)$"
MAKER = (
    r"(?=.*(compute|build|get|make|create|init|prepare)).*(freq|rope|rot|cis|cos|sin|theta|pos|table)"
    r"|.*(freqs(_cis)?|cos_sin|tables?|cache)$"
)
COS, SIN, TABLE = (
    r"^(freqs_)?cos(ine)?(_\w+)?$",
    r"^(freqs_)?sin(e)?(_\w+)?$",
    r"^(freqs?(_cis|_complex)?|cis|rope_cache|cos_sin|cache|rotary_emb|pos_emb|rope)$",
)
RETURNED = {
    ("rotary", 1): "inv_freq",
    ("alibi", 1): "slopes",
    ("alibi", 3): "bias",
    ("sinusoidal", 2): "table",
    ("t5", 1): "buckets",
}
"""The meaning of a returned array, by the encoding and the array's number of axes."""


def diagnose_call(model: ModelPositions | str, path: Path, name: str, *, layer: str | None = None) -> Diagnosis:
    """Diagnose a port's function with any signature.

    Args:
        path, name: the file, and the function or class in it.

    Raises:
        InvalidArgument: there is no such file or function, it does not end, or no way of calling it works.
    """
    if not path.is_file():
        raise InvalidArgument(f"--call {path}:{name}: there is no file {path}")
    asked = expected(model, layer)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "diagnosis"
        run = subprocess.run(
            [sys.executable, "-m", __name__, str(path.resolve()), name, str(out), str(SECONDS)],
            cwd=folder,
            env=os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
            input=pickle.dumps(asked),
            capture_output=True,
        )
        if out.exists():
            return cast(Diagnosis, pickle.loads(out.read_bytes()))
    if run.returncode == -signal.SIGALRM:
        raise InvalidArgument(f"{path} did not end within {SECONDS} s; remove its training")
    last = (run.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {run.returncode}"])[-1]
    raise InvalidArgument(
        f"{path}:{name} cannot be called with {asked.recipe.get('head_dim') or HEAD_DIM} channels per head, as in "
        f"the model: {last}"
    )


def meanings(asked: Expected, tables: Sequence[Any], x: Tensor | None) -> dict[str, list[Any]]:
    """What an argument may be meant to be, by patterns of its name."""
    axes = asked.recipe.get("axes") if asked.recipe.name == "rotary" else None
    places = torch.stack([FAR.roll(axis) for axis in range(max(axes.axis_of_pair) + 1)]) if axes else FAR[None]
    several = [places[:, None].expand(-1, BATCH, -1), places] if len(places) > 1 else []
    return {
        VECTOR: [] if x is None else [x],
        POSITIONS: [*several, *(where for at in (FAR, NEAR) for where in (at, at[None].expand(BATCH, -1))), 0],
        r"^(rel(ative)?(_pos\w*)?|distances?|offsets?)$": [OFFSETS],
        COS: [table[0] for table in tables if isinstance(table, tuple)],
        SIN: [table[1] for table in tables if isinstance(table, tuple)],
        TABLE: list(tables),
        BASE: [] if "base" in asked.free else [asked.recipe.get("base")],
        r"(^|_)(dims?|model|width|size|d|channels|embed|hidden)(_|$)": [asked.recipe.get("head_dim")],
        r"(^|_)(heads?|nh|h|n)(_|$)": [HEADS],  # head_dim is no number of heads
        r"(^|_)(len(gth)?|seq|seqlen|max|end|ctx|context|tokens|positions|t|l)(_|$)": [len(NEAR)],
    }


def first(
    function: Callable[..., Any],
    known: Mapping[str, list[Any]],
    errors: list[Exception],
    made: Callable[..., Any] = lambda result, arguments: result,
) -> list[Any]:
    """What is made of the first result, of all that a function's arguments may be meant to be; none if all fail.

    Parameters with a default keep it, but for a base that the model states.
    """
    wanted = {
        name: [value for pattern, values in known.items() if re.search(pattern, name.lower()) for value in values]
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and (parameter.default is parameter.empty or (re.search(BASE, name.lower()) and known[BASE]))
    }
    if unknown := [name for name, values in wanted.items() if not values]:
        errors.append(
            TypeError(
                f"it needs {', '.join(unknown)}; name its arguments as ports do (x or q, positions, cos and sin, "
                "freqs_cis, head_dim, seq_len, heads, base)"
            )
        )
    bindings = itertools.islice(itertools.product(*wanted.values()), WAYS)
    for chosen, array in itertools.product(bindings, (torch.as_tensor, np.asarray)):
        values = (array(value.clone()) if torch.is_tensor(value) else value for value in chosen)
        arguments = dict(zip(wanted, values, strict=True))
        try:
            return [made(function(**arguments), arguments)]
        except Exception as error:  # another binding may be right
            errors.append(error)
    return []


def tables_of(names: Mapping[str, Any], asked: Expected) -> tuple[list[Any], str]:
    """The tables that the file's own function makes, or else the model's, in the usual layouts of ports.

    With the model's tables comes a note for the answer: whose they are, and why the file's were not tested.
    """
    made, untested = list[Any](), ""
    known = [meanings(asked, (), None) | {POSITIONS: [at]} for at in (NEAR, NEAR[None].expand(BATCH, -1))]
    for name, maker in names.items():
        if inspect.isfunction(maker) and re.match(MAKER, name.lower()):
            errors: list[Exception] = []
            made += [table for meant in known for table in first(maker, meant, errors)]
            untested += f"; {name} was not tested: {str(errors[0]).partition(';')[0]}" if errors else ""
    if made or asked.recipe.name != "rotary":
        return made, ""
    right = Rotation.of(asked, asked.recipe.get("head_dim"))
    angles = torch.from_numpy(right.angles({"position": NEAR[:, None].numpy()}))
    turns = torch.polar(torch.tensor(right.factor).double(), angles).to(torch.complex64)
    wide = [torch.cat((turns, turns), -1), turns.repeat_interleave(2, -1), turns]
    pairs = ((t.real, t.imag) for t in (*(table.expand(BATCH, -1, -1) for table in wide), *wide))
    return [turns, *pairs], f", with posenc's cos and sin{untested}"


def searches(names: Mapping[str, Any], name: str, asked: Expected) -> list[Search]:
    """What the first way that works returns under every layout, with positions of as many axes as one takes."""
    asked = replace(asked, recipe=asked.recipe.with_(head_dim=asked.recipe.get("head_dim") or HEAD_DIM))
    tables, note = tables_of({key: value for key, value in names.items() if key != name}, asked)
    target, errors = names[name], list[Exception]()
    if inspect.isclass(target):
        made = first(target, meanings(asked, tables, None), errors)
        target = next((getattr(module, "forward", module) for module in made), target)
    turns = any(re.search(VECTOR, parameter.lower()) for parameter in inspect.signature(target).parameters)
    sizes = {"B": BATCH, "H": X_HEADS, "T": len(NEAR), "D": asked.recipe.get("head_dim")}
    compared: list[Search] = []
    for layout in LAYOUTS if turns else ("",):
        random = torch.Generator().manual_seed(0)
        x = torch.randn([sizes[axis] for axis in layout], generator=random) if layout else None
        compared += first(target, meanings(asked, tables, x), errors, partial(_search, asked, layout, x, note))
    if not compared:
        raise errors[0]
    axes = [search.rows[0].get("position", NEAR[:, None]).shape[1] for search in compared]
    return [search for search, count in zip(compared, axes, strict=True) if count == max(axes)]


def _search(
    asked: Expected, layout: str, x: Tensor | None, note: str, returned: Any, arguments: Mapping[str, Any]
) -> Search:
    """What was returned, by what its shape says that it is."""
    several = isinstance(returned, tuple | list) and not isinstance(returned[0], float)
    array, *others = (torch.as_tensor(part).detach() for part in (returned if several else [returned]))
    given = [value for name, value in arguments.items() if re.search(POSITIONS, name.lower())]
    at = NEAR if not given or isinstance(given[0], int) else torch.as_tensor(given[0])
    at = at[:, 0] if at.ndim == 3 else at[0] if len(at) == BATCH and at[0].equal(at[1]) else at
    if x is not None and array.shape == x.shape:
        before, rotated = (values.movedim(layout.index("T"), -2) for values in (x, array))
        numbers = {"positions": at, "x": before, "rotated": rotated}
        if others and torch.equal(others[0], array):  # queries and keys
            asked = replace(asked, free=asked.free | {"written"})
    elif asked.recipe.name == "rotary" and (len(others) == 1 or array.is_complex()):
        cos, sin = (array, *others) if others else (array.real, array.imag)
        numbers = {"positions": at, "cos": cos, "sin": sin}
    else:
        array = array[0] if array.ndim > 1 and len(array) == 1 else array
        numbers = {RETURNED.get((asked.recipe.name, array.ndim), "result"): array}
        numbers |= {"offsets": OFFSETS} if "buckets" in numbers else {}
    given_tables = any(re.search(f"{COS}|{SIN}|{TABLE}", name.lower()) for name in arguments)
    return search(asked, numbers, f", x as ({', '.join(layout)})" * (len(layout) > 2) + note * given_tables)


def main(path: str, name: str, out: str, seconds: str) -> None:
    """Run the file, call the function in every way that works, and save the results for the diagnosis."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    asked = pickle.load(sys.stdin.buffer)
    signal.alarm(int(seconds))
    names = runpy.run_path(path)
    one_of("function", name, [key for key, value in names.items() if callable(value)])
    asked_about = searches(names, name, asked)
    signal.alarm(0)
    Path(out).write_bytes(pickle.dumps(diagnosed(asked_about)))


if __name__ == "__main__":
    main(*sys.argv[1:])
