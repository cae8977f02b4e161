"""Refuses machines that would give other numbers: other versions, or another source of posenc."""

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from posenc.errors import StudyError

PACKAGES = ("posenc", "torch", "numpy", "safetensors")
"""Whose versions decide numbers, or whether files are read."""


def installed() -> dict[str, str]:
    """The versions that this process has, read without importing any package."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    spec = find_spec("posenc")
    digest = hashlib.sha256()
    for path in sorted(Path(spec.origin).parent.rglob("*.py")) if spec and spec.origin else ():
        digest.update(path.read_bytes())
    return {**versions, "posenc's source": digest.hexdigest()[:8]}


def refuse_others(machine: str, driver: dict[str, str], versions: dict[str, str]) -> None:
    """StudyError where a machine has other versions than the driver."""
    unequal = [name for name, value in driver.items() if versions.get(name) != value]
    differ = ", ".join(f"{name} {versions.get(name)} for {driver[name]}" for name in unequal)
    if differ:
        raise StudyError(
            f"machine {machine} of the cluster has {differ}; install the driver's versions there, or hand them "
            "over with ray job submit --runtime-env"
        )
