"""Resolve the project with all extras against its pins, as on a machine without local pip settings.

Run `python3 tools/resolve.py [PYTHON ...]`, by default with this Python. It resolves against constraints.txt, and
on the lowest Python also against oldest.txt. It uses pip, because most people use pip, and installs nothing. It
uses the newest pip, because older versions download gigabytes even for a dry run. All extras are resolved together:
if every package is pinned and the pins agree, they also agree for fewer extras.
"""

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(pythons: list[str]) -> int:
    """Resolve on each Python, and return 1 if a resolution fails."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    wanted = f".[{','.join(project['optional-dependencies'])}]"
    lowest = f"Python {project['requires-python'].removeprefix('>=')}."
    results = []
    for python in pythons:
        named = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
        pins = ["constraints.txt", *(["oldest.txt"] if named.startswith(lowest) else [])]
        results += [resolves(python, f"{named}, {each}", each, wanted) for each in pins]
    return int(not all(results))


def resolves(python: str, named: str, pins: str, project: str) -> bool:
    """Return whether pip finds a version of every requirement under these pins, and print the result."""
    plain = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    with tempfile.TemporaryDirectory() as room:
        subprocess.run([python, "-m", "venv", room], check=True)
        own = str(Path(room, "bin", "python"))
        start = time.monotonic()
        subprocess.run([own, "-m", "pip", "install", "--quiet", "--upgrade", "pip"], env=plain, check=True)
        command = [own, "-m", "pip", "install", "--quiet", "--dry-run", "-c", pins, project]
        pip = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True)
    print(
        f"{'FAILED' if pip.returncode else 'resolves'}  {named}  {project}  {time.monotonic() - start:.0f} s",
        flush=True,
    )
    if pip.returncode:
        print(pip.stderr.strip())
    return pip.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [sys.executable]))
