"""Tests a rotation against exact numbers: ``PORT=my_kernel:rotate python -m pytest .`` in this folder.

``rotate(x, positions, layer_type)`` gets x of shape (B, H, T, D) in float32, bfloat16 or float16, and int64
positions of shape (B, T), or (A, B, T) for A axes. ``rotate`` must return the rotated x in the type of x. The array
``room`` in kit.npz has the tolerance of every element of the result: eight float32 roundings of the angle, plus one
rounding to the type of x.
"""

import os
import sys
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path.cwd()))  # the folder of a port that is not installed
KIT = Path(__file__).with_name("kit.npz")
CASES = sorted({name.rpartition("/")[0] for name in np.load(KIT).files}) if KIT.is_file() else []


@pytest.mark.parametrize("case", CASES)
def test_rotation(case: str) -> None:
    layer_type, _, dtype = case.split("/")
    with np.load(KIT) as kit:
        positions, x, want, room = (kit[f"{case}/{name}"] for name in ("positions", "x", "rotated", "room"))
    given = torch.tensor(x).to(getattr(torch, dtype))
    got = resolve_name(os.environ["PORT"])(given.clone(), torch.tensor(positions), layer_type)
    assert (got.shape, got.dtype) == (given.shape, given.dtype)
    apart = np.abs(got.detach().cpu().double().numpy() - want)
    row, head, token, channel = np.unravel_index((apart - room).argmax(), apart.shape)
    at = positions.reshape(-1, len(x), x.shape[2])[0, row, token]
    assert (apart <= room).all(), f"channel {channel} of head {head} at position {at} is off by {apart.max():.3g}"
