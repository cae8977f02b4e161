"""Compile the native kernel into one library, in the folder of its sources, with all instruction sets.

Run `python tools/build_kernel.py [LIBRARY]` in a checkout that is not installed or whose sources have changed;
setup.py also compiles it for wheels and `pip install -e .`. `$CC` names the C compiler: GCC 12, Clang, or a cross
compiler for another processor. Only the system's C library is linked.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "src" / "posenc" / "kernels" / "rotary" / "native.so"
SOURCES = LIBRARY.with_suffix("")

FLAGS = (
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wno-psabi",
)
"""The compiler flags. Without contraction, products and sums are rounded separately, as in PyTorch operators."""

LEVELS = {
    "x86_64": {
        "baseline": (),
        "avx2": ("-mavx2", "-mf16c"),
        "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mf16c"),
    }
}
"""The instruction sets by processor; loading the library selects the best available set. AVX512_BF16 is
excluded because it treats numbers below 2^-126 as zero."""


def sources_hash() -> str:
    """Return a hash that identifies the sources of a library; the loader computes the same hash."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCES.glob("*.[ch]")))).hexdigest()[:16]


def is_current() -> bool:
    """Return whether the library of this checkout was compiled from its current sources."""
    return LIBRARY.exists() and sources_hash().encode() in LIBRARY.read_bytes()


def build(library: Path = LIBRARY) -> None:
    """Compile the library, and replace the old library atomically.

    Raises: OSError, subprocess.CalledProcessError: the compiler is missing or failed; its message is on stderr.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    target = subprocess.run([*compiler, "-dumpmachine"], capture_output=True, text=True, check=True).stdout
    levels = LEVELS.get(target.partition("-")[0], {"baseline": ()})
    with tempfile.TemporaryDirectory() as folder:
        objects = [f"{folder}/{name}.o" for name in (*levels, "kernel")]
        commands = [
            [*compiler, *FLAGS, *flags, f"-DLEVEL={name}", "-c", f"{SOURCES}/rows.c", "-o", f"{folder}/{name}.o"]
            for name, flags in levels.items()
        ]
        source = f'-DSOURCE="{sources_hash()}"'
        commands.append([*compiler, *FLAGS, source, "-c", f"{SOURCES}/kernel.c", "-o", objects[-1]])
        compiling = [subprocess.Popen(command) for command in commands]
        for command, process in zip(commands, compiling, strict=True):
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, command)
        built = library.with_name(f"{library.name}.{os.getpid()}")
        library.parent.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run([*compiler, "-shared", "-pthread", *objects, "-o", built], check=True)
            built.replace(library)
        finally:
            built.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        build(*map(Path, sys.argv[1:]))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(
            f"error: the native kernel was not compiled ({error}); without it, posenc is slower but equally exact"
        )
