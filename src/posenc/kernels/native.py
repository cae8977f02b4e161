"""The native kernel is a C library for several instruction sets, which is compiled with the package and loaded
on first use.

This module does not compile or write files. A library that is older than its sources, as in a checkout after a
pull, is not loaded.
"""

import ctypes
import hashlib
from functools import cache
from pathlib import Path

from posenc.errors import BackendUnavailable

LIBRARY = Path(__file__).parent / "rotary" / "native.so"
SOURCES = LIBRARY.with_suffix("")
"""The folder of the C sources, which wheels do not contain."""


class Job(ctypes.Structure):
    """The kernel's arguments other than addresses, laid out like the structure in ``rotary/native/call.h``."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "heads", "tokens", "pairs", "rest")),
        *((name, ctypes.c_int64 * 3) for name in ("x", "y", "table")),
        *((name, ctypes.c_int32) for name in ("type", "half", "threads")),
    ]


@cache
def lacking() -> str:
    """Return the reason why the native kernel is not available and how to get it, or an empty string if it is
    available.
    """
    try:
        load()
    except BackendUnavailable as lack:
        return str(lack)
    return ""


def level() -> str:
    """Return the instruction set of the kernel, which is the best of ``"baseline"``, ``"avx2"`` and ``"avx512"``
    that this processor supports.
    """
    return str(load().posenc_level().decode())


@cache
def load() -> ctypes.CDLL:
    """Load the library.

    Raises:
        BackendUnavailable: the library does not work here; the message says how to get one that does.
    """
    sources = sorted(SOURCES.glob("*.[ch]"))
    remedy = (
        "type: python tools/build_kernel.py"
        if sources
        else "install a C compiler (Debian: apt install gcc) and reinstall posenc from source"
    )
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.posenc_level.restype = library.posenc_source.restype = ctypes.c_char_p
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
        if sources and library.posenc_source().decode() != digest:
            raise BackendUnavailable(f"the native kernel is older than its source; {remedy}")
        if (read := library.posenc_job_size()) != (written := ctypes.sizeof(Job)):
            raise BackendUnavailable(
                f"the native kernel expects an argument structure of {read} bytes, but posenc passes {written}; "
                f"{remedy}"
            )
    except (OSError, AttributeError) as error:
        state = "does not load on this system" if LIBRARY.exists() else "was not compiled with this installation"
        raise BackendUnavailable(f"the native kernel {state}; {remedy}") from error
    library.posenc_rotate.argtypes = [ctypes.c_void_p] * 5
    library.posenc_rotate_both.argtypes = [ctypes.c_void_p] * 6
    library.posenc_use_cache.restype, library.posenc_use_cache.argtypes = ctypes.c_int64, [ctypes.c_int64]
    return library
