"""The native kernel: a C library for several instruction sets, compiled with the package and loaded on first use.

This module compiles and writes nothing. A library that is older than its sources, as in a checkout after a pull,
is not loaded.
"""

import ctypes
import hashlib
from functools import cache
from pathlib import Path

from posenc.errors import BackendUnavailable

LIBRARY = Path(__file__).parent / "rotary" / "native.so"
SOURCES = LIBRARY.with_suffix("")
"""The folder of the C sources, which a wheel does not contain."""


class Job(ctypes.Structure):
    """The kernel's arguments other than addresses: the fields of the structure in ``rotary/native/call.h``."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "heads", "tokens", "pairs", "rest")),
        *((name, ctypes.c_int64 * 3) for name in ("x", "y", "table")),
        *((name, ctypes.c_int32) for name in ("type", "half", "threads")),
    ]


def load() -> ctypes.CDLL:
    """Load the library.

    Raises:
        BackendUnavailable: no library works here; the message says how to get one.
    """
    library, lack = _load()
    if library is None:
        raise BackendUnavailable(lack)
    return library


def lacking() -> str:
    """Return why there is no native kernel here and how to get it; empty if there is one."""
    return _load()[1]


def level() -> str:
    """Return the instruction set in use, ``"baseline"``, ``"avx2"`` or ``"avx512"``: the best that this processor
    supports."""
    return str(load().posenc_level().decode())


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """Load the library, or return the reason why there is none."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    remedy = (
        "type: python tools/build_kernel.py"
        if sources
        else "install a C compiler (Debian: apt install gcc) and install posenc again, from its source"
    )
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.posenc_level.restype = library.posenc_source.restype = ctypes.c_char_p
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
        if sources and library.posenc_source().decode() != digest:
            return None, f"the native kernel is older than its source; {remedy}"
        if (read := library.posenc_job_size()) != (written := ctypes.sizeof(Job)):
            return None, f"the native kernel expects jobs of {read} bytes, but posenc writes {written}; {remedy}"
    except (OSError, AttributeError):
        state = "does not load on this system" if LIBRARY.exists() else "was not compiled with this installation"
        return None, f"the native kernel {state}; {remedy}"
    library.posenc_rotate.argtypes = [ctypes.c_void_p] * 5
    library.posenc_rotate_both.argtypes = [ctypes.c_void_p] * 6
    library.posenc_use_cache.restype, library.posenc_use_cache.argtypes = ctypes.c_int64, [ctypes.c_int64]
    return library, ""
