"""The versions for a bug report, which are read without importing the packages."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from posenc.kernels import native

PACKAGES = ("torch", "jaxtyping", "numpy", "transformers", "matplotlib", "starlette", "ray")


def versions() -> str:
    """Return one line each for posenc, Python, the platform, packages that affect results, and posenc's native
    kernel.
    """
    lines = {"posenc": version("posenc"), "python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            lines[package] = version(package)
    lines["native kernel"] = native.lacking() or native.level()
    return "\n".join(f"{name:<15}{value}" for name, value in lines.items())
