"""Picks an implementation for a device, with the reason for it; raises an error if none supports the call."""

from typing import Literal, get_args

from posenc.arguments import one_of
from posenc.errors import BackendUnavailable
from posenc.kernels import native

RotationBackend = Literal["auto", "torch", "eager", "native"]
"""``"torch"``: the specification, in basic operators. ``"eager"``: the same in few passes over memory, block by
block, without compilation. ``"native"``: one pass in C, by the library that is compiled with the package.
``"auto"``: the fastest implementation on the device that has no start-up cost."""


def check_backend(backend: str) -> None:
    """Raise an error for an unknown name or an implementation that this installation lacks."""
    one_of("backend", backend, get_args(RotationBackend))
    if backend == "native":
        native.load()


def by_name(backend: str, device: str) -> str:
    """Return the implementation for tensors on this type of device (``"cpu"``, ``"cuda"`` …).

    Raises:
        UnknownName: there is no implementation with this name.
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
    """Name the implementation and the reason in one sentence.

    Raises:
        UnknownName, BackendUnavailable: as in ``by_name``.
    """
    served = by_name(backend, device)
    if backend != "auto":
        return f"{served}: backend={backend!r} was requested"
    if served == "eager":
        return f"{served}: blocks that stay in cache, nothing compiled; {native.lacking()}"
    if served == "native":
        return f"{served}: one pass over memory, with {native.level()} instructions"
    return f"{served}: plain operators, which also run on {device}; torch.compile fuses them"
