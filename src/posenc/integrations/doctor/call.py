"""Calls a port's own function, whatever its signature: ``posenc doctor MODEL --call my_port.py:apply_rope``.

The file runs in a process of its own with limits on time and memory, in an empty folder; run only what you trust.
Arguments are found by the names that ports give them. What is rotated is tried as (B, H, T, D), (B, T, H, D),
(H, T, D), (T, H, D), (B, T, D) and (T, D); tables are made by the file's own function where it has one.
"""

import inspect
import itertools
import os
import re
import resource
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.errors import InvalidArgument

SECONDS, MEMORY = 60, 8 * 2**30
WAYS = 24
"""Bindings of one function that are tried."""
HEADS, BATCH = 3, 2
FAR = (0, 1, 2, 3, 5, 8, 13, 100, 1000, 4095, 70_000)
"""Positions for a function that has an argument for them; one with a table of its own is asked at 0, 1, 2 …"""
TOKENS = len(FAR)
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


def called(path: Path, name: str, given: Mapping[str, float], tables: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """What the function returned under each layout in which it could be called.

    Args:
        path, name: the file, and the function or class in it.
        given: ``head_dim``, ``heads`` and, as far as it is stated, ``base``.
        tables: ``theta`` and ``factor`` of a rotation, for a function that is handed cos and sin.

    Raises:
        InvalidArgument: no such file or function, it does not end, or no way of calling it works.
    """
    if not path.is_file():
        raise InvalidArgument(f"--call {path}:{name}: there is no file {path}")
    with tempfile.TemporaryDirectory() as folder:
        asked, out = Path(folder) / "asked.pt", Path(folder) / "answers.pt"
        torch.save({"given": dict(given), "right": dict(tables)}, asked)
        command = [sys.executable, "-m", __name__, str(path.resolve()), name, str(asked), str(out)]
        drawn = os.environ | {"MPLBACKEND": "Agg"}
        try:
            run = subprocess.run(command, cwd=folder, env=drawn, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise InvalidArgument(f"{path} has not ended after {SECONDS} s; leave its training out") from None
        if not out.exists():
            last = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
            channels = f"{given['head_dim']:g} channels a head, as the model has"
            raise InvalidArgument(f"{path}:{name} cannot be called with {channels}: {last}")
        answers: list[dict[str, Any]] = torch.load(out, weights_only=True)
    return answers


def vector(layout: str, head_dim: int) -> Tensor:
    """What is rotated, the same whenever it is asked for."""
    sizes = {"B": BATCH, "H": HEADS, "T": TOKENS, "D": head_dim}
    return torch.randn([sizes[axis] for axis in layout], generator=torch.Generator().manual_seed(0))


class Ways:
    """The ways of calling the functions of one file."""

    def __init__(self, names: Mapping[str, Any], given: Mapping[str, float], right: Mapping[str, Tensor]) -> None:
        self.names, self.given, self.right = names, given, right
        self.tables: list[Any] = []  # which a maker of tables needs none of
        self.tables = self._tables()

    def values(self, name: str, x: Tensor | None) -> list[Any]:
        """What an argument of this name may be meant to be."""
        far, near = torch.tensor(FAR), torch.arange(TOKENS)
        pairs = [table for table in self.tables if isinstance(table, tuple) and len(table) == 2]
        meanings: dict[str | re.Pattern[str], list[Any]] = {
            VECTOR: [x],
            POSITIONS: [far, far[None].expand(BATCH, -1), near, near[None].expand(BATCH, -1), 0],
            r"^(rel(ative)?(_pos\w*)?|distances?|offsets?)$": [OFFSETS],
            r"^(freqs_)?cos(ine)?(_\w+)?$": [table[0] for table in pairs],
            r"^(freqs_)?sin(e)?(_\w+)?$": [table[1] for table in pairs],
            TABLE: sorted(self.tables, key=lambda table: isinstance(table, tuple)),
            BASE: [self.given.get("base")],
            r"(^|_)(heads?|nh|h|n)(_|$)": [self.given["heads"]],
            r"(^|_)(dims?|model|width|size|d|channels|embed|hidden)(_|$)": [self.given["head_dim"]],
            r"(^|_)(len(gth)?|seq|seqlen|max|end|ctx|context|tokens|positions|t|l)(_|$)": [TOKENS],
        }
        fitting = [values for pattern, values in meanings.items() if re.search(pattern, name.lower())]
        return [value for value in itertools.chain(*fitting) if value is not None]

    def _tables(self) -> list[Any]:
        """The tables that the file makes itself, else the model's own in the layouts that ports have."""
        made: list[Any] = []
        for name, maker in self.names.items():
            if inspect.isfunction(maker) and MAKER.match(name.lower()):
                with suppress(Exception):  # it makes no tables
                    made.append(next(self.results(maker, None))[1])
        if made or "theta" not in self.right:
            return made
        angles = torch.arange(TOKENS)[:, None] * self.right["theta"]
        cos, sin = ((self.right["factor"] * part).float() for part in (angles.cos(), angles.sin()))
        halves = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        wide = [halves, (cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)), (cos, sin)]
        batched = [tuple(part[None].expand(BATCH, -1, -1) for part in pair) for pair in wide]
        return [torch.complex(cos, sin), *batched, *wide]

    def results(self, function: Callable[..., Any], x: Tensor | None) -> Iterator[tuple[dict[str, Any], Any]]:
        """The arguments and the result of every way that works; else the error of the first, the likeliest.

        Parameters with a default keep it, but for a base that the model states.
        """
        wanted = {
            name: self.values(name, x)
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and (parameter.default is parameter.empty or (BASE.match(name.lower()) and self.given.get("base")))
        }
        if unknown := [name for name, values in wanted.items() if not values]:
            raise TypeError(f"it needs {', '.join(unknown)}; name its arguments as ports do ({KNOWN})")
        error, worked = None, False
        bindings = itertools.islice(itertools.product(*wanted.values()), WAYS)
        for chosen, kind in itertools.product(bindings, (torch.as_tensor, np.asarray)):
            arguments = {k: kind(v) if torch.is_tensor(v) else v for k, v in zip(wanted, chosen, strict=True)}
            try:
                result = function(**arguments)
            except Exception as caught:  # another binding may be meant
                error = error or caught
                continue
            worked = True
            yield arguments, result
        if error and not worked:
            raise error

    def answers(self, name: str) -> list[dict[str, Any]]:
        """Under every layout what the first way that works returns: arrays by name, and the positions asked at."""
        target, answers, errors = self.names[name], [], []
        if inspect.isclass(target):
            _, made = next(self.results(target, None))
            target = getattr(made, "forward", made)
        turns = any(VECTOR.match(parameter.lower()) for parameter in inspect.signature(target).parameters)
        for layout in LAYOUTS if turns else ("",):
            x = vector(layout, int(self.given["head_dim"])) if layout else None
            try:
                for arguments, result in self.results(target, x):
                    if arrays := _arrays(result, x):
                        at = next((v for k, v in arguments.items() if POSITIONS.match(k.lower())), None)
                        at = np.arange(TOKENS) if at is None or isinstance(at, int) else np.asarray(at)
                        at = torch.as_tensor(at.reshape(-1, TOKENS)[0])
                        answers.append({"layout": layout, "positions": at, **arrays})
                        break
            except Exception as error:  # another layout may be meant
                errors.append(error)
        if not answers:
            raise errors[0] if errors else TypeError("it returns no array")
        return answers


def _arrays(returned: Any, x: Tensor | None) -> dict[str, Tensor]:
    """The arrays that were returned, by what their shapes say that they are."""
    parts = list(returned) if isinstance(returned, tuple | list) else [returned]
    try:
        tensors = [torch.as_tensor(part).detach() for part in parts]
    except (TypeError, ValueError, RuntimeError):
        return {}
    if x is not None and tensors and tensors[0].shape == x.shape:
        return {"rotated": tensors[0]}
    if len(tensors) == 2:
        return {"cos": tensors[0], "sin": tensors[1]}
    if len(tensors) != 1:
        return {}
    whole = tensors[0]
    return {"cos": whole.real.clone(), "sin": whole.imag.clone()} if whole.is_complex() else {"array": whole}


def main(path: str, name: str, asked: str, out: str) -> None:
    """Run the file, call the function in every way that works, and keep what comes."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    torch.set_num_threads(1)
    try:
        names = runpy.run_path(path)
        if not callable(names.get(name)):
            known = [key for key, value in names.items() if inspect.isfunction(value) or inspect.isclass(value)]
            raise NameError(f"{name} is no function there; there are {', '.join(known) or 'none'}")
        torch.save(Ways(names, **torch.load(asked, weights_only=True)).answers(name), out)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
