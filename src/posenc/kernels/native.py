"""Native kernels: C++ of this package, built for this machine once, kept in a cache, and loaded from there.

A library's name holds the source, the flags and the processor it was built for, so that a home shared by several
machines, or a newer posenc, never loads another's.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
from functools import cache
from pathlib import Path

from posenc.errors import BackendUnavailable

FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared")
"""Without contraction a product and a sum are rounded apart, as plain operators round them."""

COMPILERS = ("c++", "g++", "clang++")

ROTATION = Path(__file__).parent / "rotary" / "native.cpp"


@cache
def processor() -> str:
    """What the compiler's ``native`` stands for here: the kind of machine, and what its processor can do."""
    facts = [platform.system(), platform.machine(), platform.processor()]
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        lines = listing.read_text(errors="replace").splitlines()
        wanted = ("model name", "flags", "Features", "CPU part")
        facts += sorted({line for line in lines if line.startswith(wanted)})
    return "\n".join(facts)


def compiler() -> str | None:
    """The C++ compiler: ``$CXX``, or the first of ``COMPILERS`` that is installed; None without one."""
    asked = os.environ.get("CXX")
    names = (asked, *COMPILERS) if asked else COMPILERS
    return next((name for name in names if shutil.which(shlex.split(name)[0])), None)


def folder() -> Path:
    """Where libraries are kept, no link on the way: ``$POSENC_CACHE``, else the user's cache."""
    home = os.environ.get("POSENC_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "posenc"
    return Path(home).expanduser().resolve()


@cache
def _name(source: Path) -> str:
    key = hashlib.sha256()
    for part in (source.read_bytes(), " ".join(FLAGS).encode(), processor().encode()):
        key.update(part)
    return f"{source.stem}-{key.hexdigest()[:16]}.so"


@cache
def find(source: Path) -> Path | None:
    """The library of this source for this machine, if it was built before and loads; None where not.

    A process looks once: numbers of one process come from one kernel.
    """
    if os.name != "posix":
        return None
    library = folder() / _name(source)
    return library if _loads(library) else None


def _loads(path: Path) -> bool:
    try:
        return _open_to_others(path) is None and bool(load(path))
    except OSError:
        return False


def _open_to_others(path: Path) -> Path | None:
    """The path, or a folder over it, where somebody else may put what this user would run; None without one.

    Each has to be this user's or root's, and nobody else may write to it, but a group of the user's own number,
    which is his alone; to folders over the path others may add, as to ``/tmp``.
    """
    for at in (path, *path.parents):
        status = at.stat()
        writing = stat.S_IWOTH | (0 if status.st_gid == os.getuid() else stat.S_IWGRP)
        adding = at != path and status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.getuid()) or (status.st_mode & writing and not adding):
            return at
    return None


def build(source: Path) -> Path:
    """The library of this source, built if it was not; some seconds, once a machine.

    Processes that ask at one time build it once.

    Raises:
        BackendUnavailable: no compiler, one that fails (its message is passed on), or a cache that cannot be
            written or that others may change.
    """
    library = find(source)
    if library is not None:
        return library
    if os.name != "posix":
        raise BackendUnavailable(
            "a native kernel is built on Linux and macOS; use backend='auto', which does without"
        )
    import fcntl  # which other systems lack

    by = compiler()
    if by is None:
        raise BackendUnavailable(
            f"a native kernel needs a C++ compiler, and none of $CXX, {', '.join(COMPILERS)} is installed; install "
            "one (Debian: apt install g++), or use backend='auto', which does without"
        )
    library = folder() / _name(source)
    try:
        library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if at := _open_to_others(library.parent):
            raise OSError(f"others may change {at}")
        with library.with_suffix(".so.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            find.cache_clear()
            return find(source) or _compile(by, source, library)
    except OSError as error:
        raise BackendUnavailable(
            f"a native kernel cannot be kept in {library.parent} ({error.strerror or error}); "
            "set POSENC_CACHE to a folder of yours"
        ) from error


def _compile(by: str, source: Path, library: Path) -> Path:
    """Compile next to the library's place and move it there at once; with threads where the compiler has OpenMP."""
    target = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    built = library.with_suffix(f".{os.getpid()}")
    for threads in (["-fopenmp"], []):
        command = [*shlex.split(by), *FLAGS, target, *threads, str(source), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            built.chmod(0o700)
            built.replace(library)
            find.cache_clear()
            return library
    built.unlink(missing_ok=True)
    message = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
    raise BackendUnavailable(f"{by} cannot build {source.name}: {message}; use backend='auto', which does without")


@cache
def load(library: Path) -> ctypes.CDLL:
    """The functions of a built library."""
    return ctypes.CDLL(str(library))
