"""Holds a learner's listing to the library: the first element that differs, and which known mistake gives it."""

import ast
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import posenc
from posenc.encodings.alibi import slopes
from posenc.encodings.rotary import Pairing, rotate
from posenc.errors import InvalidArgument
from posenc.teaching.listing import CALLS, vector

SECONDS = 60
CLOSE = 2e-5
"""float32 listings at these sizes err by less; 16 bits err by more than ten times as much."""


@dataclass(frozen=True)
class Comparison:
    """One function of a listing.

    Args:
        right: whether it is one of the forms that the library has.
        words: which form, or where it differs first and why.
    """

    function: str
    right: bool
    words: str


def compare(path: Path) -> list[Comparison]:
    """What a listing's functions return, beside the library.

    The listing runs in a process of its own, in an empty folder, for at most a minute. It is a program like any
    other: run only what you trust.

    Raises:
        InvalidArgument: no such file, none of the functions is in it, or it fails or does not end.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path} is no file; give a listing with one of {', '.join(CALLS)}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answers.pt"
        command = [sys.executable, "-m", "posenc.teaching.listing", str(path.resolve()), str(out)]
        drawn = os.environ | {"MPLBACKEND": "Agg"}
        try:
            run = subprocess.run(
                command, cwd=folder, env=drawn, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise InvalidArgument(f"{path} has not ended after {SECONDS} s; leave its training out") from None
        if not out.exists():
            last = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
            raise InvalidArgument(f"{path} does not run: {last}")
        answers = torch.load(out, weights_only=True)
    if not answers:
        raise InvalidArgument(f"{path} has none of {', '.join(CALLS)}; name your function so")
    return [judged(name, values) for name, values in answers.items()]


def judged(name: str, values: dict[str, Tensor] | str) -> Comparison:
    """A function by what it returned for each case."""
    if isinstance(values, str):
        return Comparison(name, False, f"raises {values}")
    forms = {case: FORMS[name](*ast.literal_eval(case)) for case in values}
    fitting = [
        words
        for words in next(iter(forms.values()))
        if not any(differing(value, forms[case][words][0]) for case, value in values.items())
    ]
    words = fitting[0] if fitting else "no known form"
    for case, value in values.items():
        right = [want for want, is_right in forms[case].values() if is_right]
        if all(differing(value, want) for want in right):
            nearest = min(right, key=lambda want: len(differing(value, want)))
            return Comparison(name, False, f"{words}. {case}: {first_difference(value, nearest)}")
    return Comparison(name, bool(fitting), words)


def comparable(value: Tensor) -> Tensor:
    """Without axes of length 1, and with one number for all that hides a key."""
    return value.squeeze().double().clamp(min=-1e9)


def differing(value: Tensor, want: Tensor) -> list[list[int]]:
    """The elements that are further apart than rounding takes them, in order; all of them where shapes differ."""
    value, want = comparable(value), comparable(want)
    if value.shape != want.shape:
        value = torch.full_like(want, math.nan)
    indices: list[list[int]] = (~((value - want).abs() <= CLOSE * (1 + want.abs()))).nonzero().tolist()
    return indices


def first_difference(value: Tensor, want: Tensor) -> str:
    """Where they differ first, in words."""
    if comparable(value).shape != comparable(want).shape:
        return f"its shape is {tuple(value.shape)}, and the library's {tuple(want.shape)}"
    at = tuple(differing(value, want)[0])
    return f"first at {list(at)}: {comparable(value)[at]:.6g}, and the library has {comparable(want)[at]:.6g}"


Forms = dict[str, tuple[Tensor, bool]]
"""Numbers by the words that say what gives them, and whether these are right; the library's first."""


def tables(length: int, width: int) -> Forms:
    """Sinusoidal codes."""
    at, channels = torch.arange(length)[:, None], torch.arange(width)

    def coded(angles: Tensor) -> Tensor:
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    right = posenc.Sinusoidal(width).table(at[:, 0])
    single = at * 10_000.0 ** (-channels / width)
    return {
        "sines and cosines interleaved, as in the paper": (right, True),
        "sines first, then cosines, as in tensor2tensor": (
            posenc.Sinusoidal(width, order="block").table(at[:, 0]),
            True,
        ),
        "sine and cosine change places": (right.unflatten(-1, (-1, 2)).flip(-1).flatten(-2), False),
        "it counts from position 1": (posenc.Sinusoidal(width).table(at[:, 0] + 1), False),
        "its exponent is i/d, where the paper has 2i/d": (
            coded(at * 10_000.0 ** (-channels[: width // 2] / width)),
            False,
        ),
        "every channel has a frequency of its own, where two share one": (
            torch.where(channels % 2 == 0, single.sin(), single.cos()),
            False,
        ),
        "its angles have 16 bits": (coded(angles_of(length, width).bfloat16().float()), False),
        "its arguments are the other way round": (posenc.Sinusoidal(length).table(channels), False),
    }


def angles_of(length: int, width: int) -> Tensor:
    """Position times frequency in float32, a column a pair."""
    return torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)


def rotations(*shape: int) -> Forms:
    """A vector rotated by its position."""
    length, head_dim = shape[-2:]
    x, at = vector(shape).reshape(1, -1, length, head_dim), torch.arange(length)
    rounded = angles_of(length, head_dim).bfloat16().float()
    pairings: tuple[Pairing, ...] = ("half", "interleaved")
    ropes = {pairing: posenc.Rotary(head_dim, pairing=pairing) for pairing in pairings}
    forms: Forms = {
        "halves paired, as checkpoints of Llama and Qwen are": (ropes["half"].rotate_keys(x, at), True),
        "neighbours paired, as in the paper": (ropes["interleaved"].rotate_keys(x, at), True),
    }
    for pairing, rope in ropes.items():
        forms |= {
            f"its rotation is transposed: vectors turn backwards ({pairing})": (rope.unrotate(x, at), False),
            f"it counts from position 1 ({pairing})": (rope.rotate_keys(x, at + 1), False),
            f"its angles have 16 bits ({pairing})": (rotate(x, rounded.cos(), rounded.sin(), pairing), False),
        }
    return forms


def biases(heads: int, length: int) -> Forms:
    """ALiBi, a matrix of queries by keys a head; what hides the future is left to the mask."""
    offsets = torch.arange(length)[None] - torch.arange(length)[:, None]  # j − i
    number = torch.arange(1, heads + 1)[:, None, None]
    m = torch.tensor(slopes(heads))[:, None, None]

    def forms(m: Tensor) -> dict[str, Tensor]:
        return {
            "m·(j − i)": m * offsets,
            "−m·|j − i|": -m * offsets.abs(),
            "m·(j − i), the future hidden": torch.where(offsets <= 0, m * offsets, -math.inf),
            "m·(j − i), 0 in the future": m * offsets.clamp(max=0),
        }

    known: Forms = {words: (each, True) for words, each in forms(m).items()}
    known["its sign is wrong, far keys gain: m·(i − j)"] = (-m * offsets, False)
    known["its sign is wrong, far keys gain: m·|j − i|"] = (m * offsets.abs(), False)
    known["its arguments are the other way round"] = (
        torch.tensor(slopes(length))[:, None, None] * (torch.arange(heads)[None] - torch.arange(heads)[:, None]),
        False,
    )
    for words, wrong in {
        "its slopes are 2^(−8i/h), which the paper has where h is a power of two": 2.0 ** (-8 * number / heads),
        "its slopes are 1/2, 1/4, 1/8 …, whatever the number of heads": 2.0**-number,
        "its first slope is 1: they begin a step too early": m * 2 ** (8 / heads),
    }.items():
        known |= {f"{words}: {form}": (each, False) for form, each in forms(wrong).items()}
    return known


FORMS: dict[str, Callable[..., Forms]] = {
    "positional_encoding": tables,
    "sinusoidal_pe": tables,
    "apply_rope": rotations,
    "alibi_bias": biases,
}
