"""A kit for kernel authors: inputs, exact outputs and a test file that needs only pytest, PyTorch and NumPy.

    kit(huggingface.read("model/config.json"), "folder")     # or posenc vectors model --kit folder
    PORT=my_kernel:rotate python -m pytest folder            # neither posenc nor a GPU is needed

Each case has two rows of tokens. The cases cover an odd length, one token, left padding, positions beyond the
trained length, the last position below 2³¹, and 16-bit types. All cases use the model's partial rotation, scaling
and axes.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import instance
from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.integrations.differences import CLOSE
from posenc.integrations.huggingface.model_positions import AS_READ, ModelPositions
from posenc.integrations.vectors import rotated_room

LAST, HEADS = 2**31 - 1, 3
ROUNDING = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""The relative error of one rounding to each type. It is 0 for float32, because the tolerance of the angle
includes that error."""


def kit(positions: ModelPositions, folder: str | Path, *, total_length: int | None = None) -> Path:
    """Write ``kit.npz`` and ``test_rotation.py`` into a folder.

    Args:
        positions: a model's position settings, as returned by ``huggingface.read``.
        folder: a folder, which is created if it is missing.
        total_length: the length of prompt and answer together, if a scaling depends on the length. The default is
            the longest input.

    Raises:
        InvalidArgument: the model has no rotary layers.
    """
    instance(positions, ModelPositions, "positions", AS_READ)
    rotary = {
        name: encoding
        for name, encoding in positions.encodings(total_length or positions.max_length).items()
        if isinstance(encoding, Rotary)
    }
    if not rotary:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has no rotary layers, but a kit tests only those"
        )
    folder = Path(folder)
    arrays: dict[str, Any] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, encoding in rotary.items():
        for case, dtype, at in _cases(positions.original_length, encoding.axes):
            x = torch.randn(2, HEADS, at.shape[-1], encoding.head_dim, generator=torch.Generator().manual_seed(0))
            x = x.to(getattr(torch, dtype)).double()
            want, _ = encoding.at(at, dtype=torch.float64).rotate(x, None)
            numbers = {
                "positions": at,
                "x": x.float(),
                "rotated": want,
                "room": _room(encoding, at, x, want, dtype),
            }
            arrays |= {f"{name}/{case}/{dtype}/{key}": array.numpy() for key, array in numbers.items()}
    np.savez_compressed(folder / "kit.npz", **arrays)
    shutil.copy(Path(__file__).with_name("kit_test.py"), folder / "test_rotation.py")
    return folder


def _cases(length: int, axes: int) -> Iterator[tuple[str, str, Int[Tensor, "*A B T"]]]:
    """Yield the name, the dtype of the tensor to rotate and the positions of each test case. Positions on axis k
    are k lower than on axis 0, but at least 0."""
    rows = {
        "odd length": torch.arange(7),
        "one token": torch.tensor([length - 1]),
        "left padding": torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]),
        "past the trained length": torch.arange(length - 3, length + 4),
        "last position": torch.arange(LAST - 2, LAST + 1),
    }
    for name, row in rows.items():
        at = row.expand(2, -1).clone()
        at = torch.stack([(at - axis).clamp(min=0) for axis in range(axes)]) if axes > 1 else at
        for dtype in ROUNDING if name == "odd length" else ("float32",):
            yield name, dtype, at


def _room(
    rotary: Rotary,
    at: Int[Tensor, "*A B T"],
    x: Float[Tensor, "B H T D"],
    want: Float[Tensor, "B H T D"],
    dtype: str,
) -> Float[Tensor, "B H T D"]:
    """Return the tolerance of each rotated channel: ε·(1 + p·θ)·a·(|x₁| + |x₂|), plus one rounding to ``dtype``.

    ε is eight float32 roundings (``CLOSE``), p·θ is the angle at the largest coordinate of the position, a is the
    attention factor, and x₁ and x₂ are the two channels of the pair in ``x``.
    """
    theta = torch.tensor([float(one) for one in rotary.clock.frequencies.exact], dtype=torch.float64)
    furthest = at if at.dim() == 2 else at.amax(0)
    angles = CLOSE * (1 + furthest[:, None, :, None] * theta) * rotary.attention_factor
    return rotated_room(x, angles, rotary.pairing) + ROUNDING[dtype] * want.abs()
