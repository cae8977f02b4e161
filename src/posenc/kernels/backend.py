"""Picks an implementation for a device, with the reason, and refuses calls that none can serve."""

from dataclasses import dataclass
from typing import Literal, get_args

from posenc.arguments import one_of
from posenc.errors import BackendUnavailable
from posenc.kernels import native

Backend = Literal["auto", "torch", "eager", "native"]
"""``"torch"``: the specification, plain operators. ``"eager"``: the same in few passes over memory, block by
block, nothing compiled. ``"native"``: one pass in C, by the library that is compiled with the package.
``"auto"``: the fastest that serves the device at no start-up cost."""


@dataclass(frozen=True)
class Selection:
    """The implementation that serves, and why."""

    backend: str
    reason: str


def check_backend(backend: str) -> None:
    """Refuse an unknown name, and an implementation that this installation cannot serve on any device."""
    one_of("backend", backend, get_args(Backend))
    if backend == "native":
        native.load()


def select(backend: str, device: str) -> Selection:
    """The implementation for tensors on this type of device (``"cpu"``, ``"cuda"`` …).

    Raises:
        UnknownName: no implementation of that name.
        BackendUnavailable: requested by name, and cannot serve here. Only ``"auto"`` looks for another.
    """
    served = by_name(backend, device)
    if backend == "auto":
        return Selection(served, _reason(served, device))
    return Selection(served, f"backend={backend!r} was asked for")


def by_name(backend: str, device: str) -> str:
    """The same without the reason.

    Raises:
        UnknownName, BackendUnavailable: as ``select``.
    """
    if backend == "auto":
        return "torch" if device != "cpu" else "eager" if native.lacking() else "native"
    check_backend(backend)
    if backend == "native" and device != "cpu":
        raise BackendUnavailable(
            f"backend='native' runs on cpu and the tensors are on {device}; use backend='auto'"
        )
    return backend


def _reason(served: str, device: str) -> str:
    if served == "eager":
        return f"blocks that stay in cache, nothing compiled; {native.lacking()}"
    if served == "native":
        return f"one pass over memory, with {native.level()} instructions"
    return f"plain operators, which run on {device} too; torch.compile fuses them"
