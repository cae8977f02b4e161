"""Who computes: picks an implementation for a device, says why, and refuses what cannot be served."""

import os
import shutil
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal, get_args

from posenc.errors import ImplUnavailable, UnknownName

Impl = Literal["auto", "torch", "eager", "compiled", "triton"]
"""``"torch"``: the specification, plain operators. ``"eager"``: the same in few passes over memory, block by
block, nothing compiled. ``"compiled"``: one loop written by Inductor, some seconds at the first call.
``"triton"``: one GPU kernel for q and k. ``"auto"``: the fastest that serves the device at no start-up cost."""


@dataclass(frozen=True)
class Choice:
    """The implementation that serves, and why."""

    impl: str
    reason: str


def check_impl(impl: str) -> None:
    """Refuse a name that is none, and an implementation that this installation cannot serve on any device."""
    if impl not in get_args(Impl):
        raise UnknownName("impl", impl, get_args(Impl))
    if impl == "triton" and not has_triton():
        raise ImplUnavailable(
            "impl='triton' needs the triton package; type: pip install 'posenc[triton]', or use impl='auto'"
        )
    if impl == "compiled" and not has_compiler():
        raise ImplUnavailable(
            "impl='compiled' needs a C++ compiler and none of $CXX, g++, clang++ is found; install one, "
            "or use impl='eager'"
        )


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
    if impl == "compiled" and device not in ("cpu", "cuda"):
        raise ImplUnavailable(
            f"impl='compiled' runs on cpu and cuda and the tensors are on {device}; use impl='auto'"
        )
    return Choice(impl, f"impl={impl!r} was asked for")


@lru_cache
def _auto(device: str) -> Choice:
    if device == "cpu":
        return Choice("eager", "on the CPU blocks that stay in cache come near the price of a copy, uncompiled")
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


@lru_cache
def has_compiler() -> bool:
    """Whether Inductor would find a C++ compiler."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))


def interpreting() -> bool:
    """Whether Triton runs its kernels in its interpreter, on any device."""
    return os.environ.get("TRITON_INTERPRET") == "1"
