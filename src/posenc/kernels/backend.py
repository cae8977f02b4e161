"""Chooses the implementation of RoPE's rotation for a device, and gives the reason for the choice."""

from functools import cache
from typing import Literal, get_args

from posenc.arguments import one_of
from posenc.errors import BackendUnavailable
from posenc.kernels import native

RotationBackend = Literal["auto", "torch", "eager", "native"]
"""``"torch"``: the formula in basic torch operators. ``"eager"``: the same operators block by block, with few
passes over memory and without compilation. ``"native"``: one pass over memory in C, by the library that is
compiled with the package. ``"auto"``: on each device, the fastest implementation that has no start-up cost.
"""


def check_backend(backend: str) -> None:
    """Raise an error for an unknown name, or for an implementation that this installation does not have."""
    one_of("backend", backend, get_args(RotationBackend))
    if backend == "native":
        native.load()


@cache
def by_name(backend: str, device: str) -> str:
    """Return the implementation for tensors on this type of device (``"cpu"``, ``"cuda"`` …).

    Raises:
        UnknownName: no implementation has this name.
        BackendUnavailable: the requested implementation does not work here; only ``"auto"`` falls back to another.
    """
    if backend == "auto":
        return "torch" if device != "cpu" else "eager" if native.lacking() else "native"
    check_backend(backend)
    if backend == "native" and device != "cpu":
        raise BackendUnavailable(
            f"backend='native' runs on cpu, but the tensors are on {device}; use backend='auto'"
        )
    return backend


def explained(backend: str, device: str) -> str:
    """Return a sentence that names the implementation and the reason for the choice.

    Raises:
        UnknownName, BackendUnavailable: as in ``by_name``.
    """
    served = by_name(backend, device)
    if backend != "auto":
        return f"{served}: backend={backend!r} was requested"
    if served == "eager":
        return f"{served}: blocks that stay in the CPU cache, without compiled code; {native.lacking()}"
    if served == "native":
        return f"{served}: one pass over memory, with {native.level()} instructions"
    return f"{served}: plain operators, which also run on {device}; torch.compile fuses them"
