"""The versions that a bug report needs, read from what is installed without importing it."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("torch", "jaxtyping", "numpy", "triton", "transformers", "matplotlib", "starlette", "ray")


def versions() -> str:
    """One line for posenc, Python, the platform and every package that bears on the numbers or the screens."""
    lines = {"posenc": version("posenc"), "python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            lines[package] = version(package)
        except PackageNotFoundError:
            continue
    return "\n".join(f"{name:<14}{value}" for name, value in lines.items())
