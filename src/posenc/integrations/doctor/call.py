"""Calls a port's own function, whatever its signature: ``posenc doctor MODEL --call my_port.py:apply_rope``.

The file runs in a process of its own with limits on time and memory, in an empty folder; run only what you trust.
Arguments are found by the names that ports give them. What is rotated is tried as (B, H, T, D), (B, T, H, D),
(H, T, D), (T, H, D), (B, T, D) and (T, D); tables are made by the file's own function where it has one.
"""

import inspect
import itertools
import json
import os
import pickle
import re
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.doctor import expected, subject
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.search import Diagnosis, Expected, Subject, diagnosed
from posenc.integrations.huggingface.model_positions import ModelPositions

SECONDS, MEMORY = 60, 8 * 2**30
WAYS = 24
"""Bindings of one function that are tried."""
HEAD_DIM = 64
"""Channels of a head if the encoding's text has none."""
BATCH, X_HEADS, HEADS = 2, 3, 12
"""The last is for functions that make something for all heads: no power of two, which ALiBi tells apart."""
FAR = torch.tensor((0, 1, 2, 3, 5, 8, 13, 100, 1000, 4095, 70_000))
"""Positions for a function that has an argument for them; one with a table of its own is asked at 0, 1, 2 …"""
NEAR = torch.arange(len(FAR))
OFFSETS = torch.arange(-300, 301)
LAYOUTS = ("BHTD", "BTHD", "HTD", "THD", "BTD", "TD")
VECTOR = re.compile(
    r"^(x|q|k|t|v|xq|xk|(q|k)_embed|quer(y|ies)|keys?|vec(tor)?|tensor|inp(ut)?|hidden\w*|\w+_states)$"
)
POSITIONS = re.compile(r"^(pos|positions?|position_ids|pos_ids|input_pos|indices|idx|m|start_pos)$")
BASE = re.compile(r"^(base|theta|rope_theta|theta_base|rope_base)$")
TABLE = re.compile(r"^(freqs?(_cis|_complex)?|cis|rope_cache|cos_sin|cache|rotary_emb|pos_emb|rope)$")
MAKER = re.compile(r"(?=.*(compute|build|get|make|create|init|prepare)).*(freq|rope|rot|cis|cos|sin|theta|pos)")
KNOWN = "x or q, positions, cos and sin, freqs_cis, head_dim, seq_len, heads, base"
RETURNED = {
    ("rotary", 1): "inv_freq",
    ("alibi", 1): "slopes",
    ("alibi", 3): "bias",
    ("sinusoidal", 2): "table",
    ("t5", 1): "buckets",
}
"""What an array is, by the encoding and its number of axes."""


def diagnose_call(model: ModelPositions | str, path: Path, name: str, *, layer: str | None = None) -> Diagnosis:
    """Which description of a port a function is, whatever its signature.

    Args:
        path, name: the file, and the function or class in it.

    Raises:
        InvalidArgument: no such file or function, it does not end, or no way of calling it works.
    """
    if not path.is_file():
        raise InvalidArgument(f"--call {path}:{name}: there is no file {path}")
    asked = expected(model, layer)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "diagnosis.json"
        command = [sys.executable, "-m", __name__, str(path.resolve()), name, str(out), str(SECONDS)]
        given, drawn = pickle.dumps(asked), os.environ | {"MPLBACKEND": "Agg"}
        run = subprocess.run(command, cwd=folder, env=drawn, input=given, capture_output=True)
        if run.returncode == -signal.SIGALRM:
            raise InvalidArgument(f"{path} has not ended after {SECONDS} s; leave its training out")
        if out.exists():
            right, causes, text = json.loads(out.read_text("utf-8")).values()
            return Diagnosis(right, tuple(causes), text)
    last = (run.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {run.returncode}"])[-1]
    channels = f"{asked.recipe.get('head_dim') or HEAD_DIM} channels a head, as the model has"
    raise InvalidArgument(f"{path}:{name} cannot be called with {channels}: {last}")


class Ways:
    """The ways of calling the functions of one file."""

    def __init__(self, names: Mapping[str, Any], expected: Expected) -> None:
        self.names, self.head_dim = names, expected.recipe.get("head_dim") or HEAD_DIM
        self.recipe = expected.recipe.with_(head_dim=self.head_dim)
        self.expected = replace(expected, recipe=self.recipe)
        self.base = None if "base" in expected.free else expected.recipe.get("base")
        self.errors: list[Exception] = []
        self.tables: list[Any] = []  # which a maker of tables needs none of
        self.tables = self._tables()

    def values(self, name: str, x: Tensor | None) -> list[Any]:
        """What an argument of this name may be meant to be."""
        pairs = [table for table in self.tables if isinstance(table, tuple) and len(table) == 2]
        meanings: dict[str | re.Pattern[str], list[Any]] = {
            VECTOR: [x],
            POSITIONS: [FAR, FAR[None].expand(BATCH, -1), NEAR, NEAR[None].expand(BATCH, -1), 0],
            r"^(rel(ative)?(_pos\w*)?|distances?|offsets?)$": [OFFSETS],
            r"^(freqs_)?cos(ine)?(_\w+)?$": [table[0] for table in pairs],
            r"^(freqs_)?sin(e)?(_\w+)?$": [table[1] for table in pairs],
            TABLE: sorted(self.tables, key=lambda table: isinstance(table, tuple)),
            BASE: [self.base],
            r"(^|_)(heads?|nh|h|n)(_|$)": [HEADS],
            r"(^|_)(dims?|model|width|size|d|channels|embed|hidden)(_|$)": [self.head_dim],
            r"(^|_)(len(gth)?|seq|seqlen|max|end|ctx|context|tokens|positions|t|l)(_|$)": [len(NEAR)],
        }
        fitting = [values for pattern, values in meanings.items() if re.search(pattern, name.lower())]
        return [value for value in itertools.chain(*fitting) if value is not None]

    def _tables(self) -> list[Any]:
        """The tables that the file makes itself, else the model's own in the layouts that ports have."""
        makers = [f for name, f in self.names.items() if inspect.isfunction(f) and MAKER.match(name.lower())]
        made = [result for maker in makers for _, result in itertools.islice(self.results(maker), 1)]
        if made or self.recipe.name != "rotary":
            return made
        right = Rotation.of(self.recipe, self.head_dim)
        angles = torch.from_numpy(right.angles({"positions": NEAR[:, None].numpy()}))
        both = right.factor * torch.stack((angles.cos(), angles.sin())).float()
        wide = [torch.cat((both, both), -1), both.repeat_interleave(2, -1), both]
        batched = [tables[:, None].expand(-1, BATCH, -1, -1) for tables in wide]
        return [torch.complex(*both), *map(tuple, (*batched, *wide))]

    def results(
        self, function: Callable[..., Any], x: Tensor | None = None
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        """The arguments and the result of every way that works; the others are ``errors``, the likeliest first.

        Parameters with a default keep it, but for a base that the model states.
        """
        wanted = {
            name: self.values(name, x)
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and (parameter.default is parameter.empty or (BASE.match(name.lower()) and self.base))
        }
        if unknown := [name for name, values in wanted.items() if not values]:
            self.errors.append(
                TypeError(f"it needs {', '.join(unknown)}; name its arguments as ports do ({KNOWN})")
            )
        bindings = itertools.islice(itertools.product(*wanted.values()), WAYS)
        for chosen, kind in itertools.product(bindings, (torch.as_tensor, np.asarray)):
            arguments = {
                k: kind(v.clone()) if torch.is_tensor(v) else v for k, v in zip(wanted, chosen, strict=True)
            }
            try:
                yield arguments, function(**arguments)
            except Exception as error:  # another binding may be meant
                self.errors.append(error)

    def subjects(self, name: str) -> list[Subject[Any]]:
        """What the first way that works returns under every layout."""
        target, subjects = self.names[name], list[Subject[Any]]()
        self.errors.clear()
        if inspect.isclass(target):
            target = next((getattr(made, "forward", made) for _, made in self.results(target)), target)
        turns = any(VECTOR.match(parameter.lower()) for parameter in inspect.signature(target).parameters)
        for layout in LAYOUTS if turns else ("",):
            sizes = {"B": BATCH, "H": X_HEADS, "T": len(NEAR), "D": self.head_dim}
            random = torch.Generator().manual_seed(0)
            x = torch.randn([sizes[axis] for axis in layout], generator=random) if layout else None
            asked = (self._subject(result, arguments, layout, x) for arguments, result in self.results(target, x))
            subjects += itertools.islice(filter(None, asked), 1)
        if not subjects:
            raise (*self.errors, TypeError("it returns nothing to compare, such as x rotated, or cos and sin"))[0]
        return subjects

    def _subject(
        self, returned: Any, arguments: Mapping[str, Any], layout: str, x: Tensor | None
    ) -> Subject[Any] | None:
        """What was returned, by what its shape says that it is; None for others."""
        given = [value for name, value in arguments.items() if POSITIONS.match(name.lower())]
        at = NEAR if not given or isinstance(given[0], int) else torch.as_tensor(given[0]).reshape(-1, len(NEAR))[0]
        note = f", x as ({', '.join(layout)})" * (len(layout) > 2)
        axes = (-3, -2) if layout[-3:] == "THD" else (0, 0)
        with suppress(
            TypeError, ValueError, IndexError, RuntimeError, InvalidArgument
        ):  # of others than arrays of a port
            arrays = [
                torch.as_tensor(part) for part in (returned if isinstance(returned, tuple | list) else [returned])
            ]
            if x is not None and arrays and arrays[0].shape == x.shape:
                numbers = {"positions": at, "x": x.transpose(*axes), "rotated": arrays[0].transpose(*axes)}
            elif self.recipe.name == "rotary" and (len(arrays) == 2 or arrays[0].is_complex()):
                cos, sin = arrays if len(arrays) == 2 else (arrays[0].real, arrays[0].imag)
                numbers = {"positions": at, "cos": cos, "sin": sin}
            else:
                array = arrays[0][0] if arrays[0].ndim > 1 and len(arrays[0]) == 1 else arrays[0]
                numbers = {RETURNED.get((self.recipe.name, array.ndim), ""): array}
                numbers |= {"offsets": OFFSETS} if "buckets" in numbers else {}
            return subject(self.expected, {name: value.detach() for name, value in numbers.items()}, note)
        return None


def main(path: str, name: str, out: str, seconds: str) -> None:
    """Run the file, call the function in every way that works, and keep what the answers come from."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    torch.set_num_threads(1)
    asked = pickle.load(sys.stdin.buffer)
    signal.alarm(int(seconds))
    names = runpy.run_path(path)
    if not callable(names.get(name)):
        known = [key for key, value in names.items() if inspect.isfunction(value) or inspect.isclass(value)]
        raise NameError(f"{name} is no function there; there are {', '.join(known) or 'none'}")
    subjects = Ways(names, asked).subjects(name)
    signal.alarm(0)
    Path(out).write_text(json.dumps(asdict(diagnosed(subjects))), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
