"""Picks an implementation for a device and gives the reason; refuses calls that no implementation supports."""

from typing import Literal, get_args

from posenc.arguments import one_of
from posenc.errors import BackendUnavailable
from posenc.kernels import native

RotationBackend = Literal["auto", "torch", "eager", "native"]
"""``"torch"``: the specification, plain operators. ``"eager"``: the same in few passes over memory, block by
block, with nothing compiled. ``"native"``: one pass in C, by the library that is compiled with the package.
``"auto"``: the fastest one on the device that has no start-up cost."""


def check_backend(backend: str) -> None:
    """Refuse an unknown name, and an implementation that works on no device in this installation."""
    one_of("backend", backend, get_args(RotationBackend))
    if backend == "native":
        native.load()


def by_name(backend: str, device: str) -> str:
    """The implementation for tensors on this type of device (``"cpu"``, ``"cuda"`` …).

    Raises:
        UnknownName: no implementation of that name.
        BackendUnavailable: it was requested by name and does not work here; only ``"auto"`` falls back to another.
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
    """Name the implementation and the reason in one sentence.

    Raises:
        UnknownName, BackendUnavailable: as ``by_name``.
    """
    served = by_name(backend, device)
    if backend != "auto":
        return f"{served}: backend={backend!r} was requested"
    if served == "eager":
        return f"{served}: blocks that stay in cache, nothing compiled; {native.lacking()}"
    if served == "native":
        return f"{served}: one pass over memory, with {native.level()} instructions"
    return f"{served}: plain operators, which also run on {device}; torch.compile fuses them"
