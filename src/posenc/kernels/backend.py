"""Picks an implementation for a device, with the reason, and refuses calls that none can serve."""

from typing import Literal, get_args

from posenc.arguments import one_of
from posenc.errors import BackendUnavailable
from posenc.kernels import native

RotationBackend = Literal["auto", "torch", "eager", "native"]
"""``"torch"``: the specification, plain operators. ``"eager"``: the same in few passes over memory, block by
block, nothing compiled. ``"native"``: one pass in C, by the library that is compiled with the package.
``"auto"``: the fastest that serves the device at no start-up cost."""


def check_backend(backend: str) -> None:
    """Refuse an unknown name, and an implementation that this installation cannot serve on any device."""
    one_of("backend", backend, get_args(RotationBackend))
    if backend == "native":
        native.load()


def by_name(backend: str, device: str) -> str:
    """The implementation for tensors on this type of device (``"cpu"``, ``"cuda"`` …).

    Raises:
        UnknownName: no implementation of that name.
        BackendUnavailable: requested by name, and cannot serve here. Only ``"auto"`` looks for another.
    """
    if backend == "auto":
        return "torch" if device != "cpu" else "eager" if native.lacking() else "native"
    check_backend(backend)
    if backend == "native" and device != "cpu":
        raise BackendUnavailable(
            f"backend='native' runs on cpu and the tensors are on {device}; use backend='auto'"
        )
    return backend


def explained(backend: str, device: str) -> str:
    """Which implementation serves, and why, in one sentence.

    Raises:
        UnknownName, BackendUnavailable: as ``by_name``.
    """
    served = by_name(backend, device)
    if backend != "auto":
        return f"{served}: backend={backend!r} was asked for"
    if served == "eager":
        return f"{served}: blocks that stay in cache, nothing compiled; {native.lacking()}"
    if served == "native":
        return f"{served}: one pass over memory, with {native.level()} instructions"
    return f"{served}: plain operators, which run on {device} too; torch.compile fuses them"
