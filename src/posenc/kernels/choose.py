"""Who computes: picks an implementation for a device, says why, and refuses what cannot be served."""

import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal, get_args

from posenc.errors import ImplUnavailable, UnknownName
from posenc.kernels import native

Impl = Literal["auto", "torch", "eager", "native", "triton"]
"""``"torch"``: the specification, plain operators. ``"eager"``: the same in few passes over memory, block by
block, nothing compiled. ``"native"``: one pass in C++, built in some seconds at the first call on a machine.
``"triton"``: one GPU kernel for q and k. ``"auto"``: the fastest that serves the device at no start-up cost."""


@dataclass(frozen=True)
class Choice:
    """The implementation that serves, and why."""

    impl: str
    reason: str


NATIVE = Choice("native", "one pass over memory, built on this machine")
EAGER = Choice(
    "eager", "blocks that stay in cache, nothing compiled; type: posenc tune, to build the native kernel once"
)


def check_impl(impl: str) -> None:
    """Refuse a name that is none, and an implementation that this installation cannot serve on any device."""
    if impl not in get_args(Impl):
        raise UnknownName("impl", impl, get_args(Impl))
    if impl == "triton" and not has_triton():
        raise ImplUnavailable(
            "impl='triton' needs the triton package; type: pip install 'posenc[triton]', or use impl='auto'"
        )
    if impl == "native":
        native.build(native.ROTATION)


def choose(impl: str, device: str) -> Choice:
    """The implementation for tensors on this type of device (``"cpu"``, ``"cuda"`` …).

    Raises:
        UnknownName: no implementation of that name.
        ImplUnavailable: asked for by name, and cannot serve here. Only ``"auto"`` looks for another.
    """
    if impl == "auto":
        return _auto(device)
    check_impl(impl)
    if impl == "triton" and device != "cuda" and not interpreting():
        raise ImplUnavailable(
            f"impl='triton' runs on cuda and the tensors are on {device}; move the model, or use impl='auto'"
        )
    if impl == "native" and device != "cpu":
        raise ImplUnavailable(f"impl='native' runs on cpu and the tensors are on {device}; use impl='auto'")
    return Choice(impl, f"impl={impl!r} was asked for")


def _auto(device: str) -> Choice:
    if device == "cpu":
        return NATIVE if native.find(native.ROTATION) else EAGER
    if device == "cuda":
        return Choice(
            "torch",
            "plain operators; the Triton kernel equals them in Triton's interpreter and has not been run on a GPU "
            "yet: ask for it with impl='triton'",
        )
    return Choice("torch", f"no kernel is written for {device}: plain operators run anywhere")


@lru_cache
def has_triton() -> bool:
    """Whether the triton package is installed; looks without importing it."""
    return find_spec("triton") is not None


def interpreting() -> bool:
    """Whether Triton runs its kernels in its interpreter, on any device."""
    return os.environ.get("TRITON_INTERPRET") == "1"
