"""Tests a rotation against exact numbers: ``PORT=my_kernel:rotate python -m pytest .`` in this folder.

``rotate(x, positions, layer_type)`` gets x of shape (B, H, T, D) in float32, bfloat16 or float16, and int64
positions of shape (B, T), or (A, B, T) for A axes. ``rotate`` must return the rotated x in the type of x. The array
``room`` in kit.npz has the tolerance of every element of the result: eight float32 roundings of the angle, plus one
rounding to the type of x.
"""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

KIT = Path(__file__).with_name("kit.npz")
CASES = sorted({name.rpartition("/")[0] for name in np.load(KIT).files}) if KIT.is_file() else []


def port() -> Callable[..., torch.Tensor]:
    """Return the function to test."""
    module, _, name = os.environ["PORT"].partition(":")
    sys.path.insert(0, str(Path.cwd()))
    found: Callable[..., torch.Tensor] = getattr(importlib.import_module(module), name)
    return found


@pytest.mark.parametrize("case", CASES)
def test_rotation(case: str) -> None:
    layer_type, _, dtype = case.split("/")
    with np.load(KIT) as kit:
        positions, x, want, room = (kit[f"{case}/{name}"] for name in ("positions", "x", "rotated", "room"))
    given = torch.tensor(x).to(getattr(torch, dtype))
    got = port()(given.clone(), torch.tensor(positions), layer_type)
    assert (got.shape, got.dtype) == (given.shape, given.dtype)
    apart = np.abs(got.detach().cpu().double().numpy() - want)
    row, head, token, channel = np.unravel_index((apart - room).argmax(), apart.shape)
    at = positions.reshape(-1, len(x), x.shape[2])[0, row, token]
    assert (apart <= room).all(), f"channel {channel} of head {head} at position {at} is off by {apart.max():.3g}"
