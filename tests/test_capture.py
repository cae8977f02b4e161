"""What a CUDA graph could not capture: values that are looked at, and numbers that are sent from the host.

Seen without a GPU. On meta tensors that everybody takes for tensors of a device, nothing may ask for a value; and
nowhere may a tensor be made from Python numbers. Kernels of CUDA alone (FlexAttention) are not reached.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from posenc import Mask, NoPE, attention, positions
from posenc.laws.effects import inputs
from posenc.laws.subject import each_layer
from support.cases import TIERS, Case
from support.checking import annotations_unchecked

WAITS = {"_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "_unique2", "unique_consecutive"}
COPIES = {"lift", "lift_fresh", "lift_fresh_copy"}
"""What torch.tensor([...]) and an index that is a list go through."""


class Forbidding(TorchDispatchMode):
    """Fails where one of these operators is called in the library."""

    def __init__(self, forbidden: set[str]) -> None:
        super().__init__()
        self.forbidden = forbidden

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in self.forbidden:
            frames = [frame for frame in traceback.extract_stack() if "/posenc/" in frame.filename]
            numbers = func.overloadpacket.__name__ in COPIES and args[0].dim() == 0  # go as arguments of a kernel
            if frames and not numbers:
                raise AssertionError(f"{func} at {frames[-1].filename}:{frames[-1].lineno}")
        return func(*args, **(kwargs or {}))


def run(case: Case, device: str, forbidden: set[str]) -> None:
    """Placed, rotated and attended to at positions that count up, that do not, and in a cache."""
    encoding, given = case.build().requires_grad_(False).to(device), [t.to(device) for t in inputs(case, 9)]
    x, q, k, v = given
    rows = [case.plain(9), case.along(torch.tensor([0, 1, 2, 4, 5, 6, 7, 9, 11]))]
    places = [row.to(device) for row in rows]
    segments = torch.arange(9, device=device) // 5
    masks = [Mask(causal=True), Mask(causal=True, window=3), Mask(causal=True, q_segments=segments)]
    with Forbidding(forbidden), annotations_unchecked():
        for at in places:
            encoding.at(at[..., -1:], at)
            placed = encoding.at(at)
            placed.embed(x)
            for _, awaiting in each_layer(placed, case.period):
                here = awaiting.with_content(x)[0]
                for mask in masks:
                    attention(*here.rotate(q, k), v, here, mask)


@contextmanager
def taken_for_tensors_of_a_device() -> Iterator[None]:
    """Whoever asks whether values may be looked at hears that they may."""
    modules = [m for name, m in sys.modules.items() if name.startswith("posenc") and hasattr(m, "is_concrete")]
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "is_concrete", lambda *tensors: True)
        yield


@pytest.mark.parametrize("case", TIERS, ids=str)
def test_nothing_looks_at_values_on_a_device(case: Case) -> None:
    case.declared  # noqa: B018  made outside
    with taken_for_tensors_of_a_device():
        run(case, "meta", WAITS)


@pytest.mark.parametrize("case", TIERS, ids=str)
def test_no_numbers_are_sent_from_the_host(case: Case) -> None:
    run(case, "cpu", COPIES)


def test_what_it_forbids_is_seen() -> None:
    with pytest.raises(AssertionError, match="lift"), Forbidding(COPIES):
        positions.packed([3, 4])
    with pytest.raises(AssertionError, match="local_scalar"), Forbidding(WAITS):
        NoPE().at(torch.arange(3))
