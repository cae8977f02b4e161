"""Whether another machine would give the same numbers: versions, and posenc's own source."""

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from posenc.errors import StudyError

PACKAGES = ("posenc", "torch", "numpy", "safetensors")
"""Whose versions decide numbers, or whether files are read."""


def installed() -> dict[str, str]:
    """What this process has, read without importing any of it."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    spec = find_spec("posenc")
    digest = hashlib.sha256()
    for path in sorted(Path(spec.origin).parent.rglob("*.py")) if spec and spec.origin else ():
        digest.update(path.read_bytes())
    return {**found, "posenc's source": digest.hexdigest()[:8]}


def differences(here: dict[str, str], there: dict[str, str]) -> str:
    """In words what is there and should be as here; empty where all is the same."""
    found = [f"{name} {there.get(name)} for {value}" for name, value in here.items() if there.get(name) != value]
    return ", ".join(found)


def refuse_others(machine: str, here: dict[str, str], there: dict[str, str]) -> None:
    """StudyError where a machine has other versions than the driver."""
    differ = differences(here, there)
    if differ:
        raise StudyError(
            f"machine {machine} of the cluster has {differ}; install the driver's versions there, or hand them "
            "over with ray job submit --runtime-env"
        )
