"""Puts the programs that real tests ask into build/programs, at exact versions, and leaves the environment alone.

`python3 tools/programs.py`. llama.cpp (within xllamacpp) and mlx-lm get an environment of their own; of every vLLM
only a few Python files are taken out of the wheel, a few hundred megabytes, which is removed again.
"""

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "build" / "programs"
PYTHON = PROGRAMS / "env" / "bin" / "python"
PACKAGES = ("xllamacpp==2026.10.11549", "mlx[cpu]==0.32.4")
ALONE = ("mlx-lm==0.32.2",)
"""Packages without what they ask for: their layers need mlx alone."""
VLLM = ("0.29.0", "0.33.0")
"""The last that reads attn_factor and the newest; those from 0.30 on read attention_factor."""
PARTS = ("layers/rotary_embedding/", "models/deepseek_v2.py")
FILES = (
    *(f"vllm/model_executor/{part}" for part in PARTS),
    "vllm/config/model.py",
    "vllm/transformers_utils/config.py",
)


def main() -> None:
    """Install what is missing."""
    done = PROGRAMS / "env" / "installed"
    if not done.exists() or done.read_text() != repr((PACKAGES, ALONE)):
        venv.create(PROGRAMS / "env", with_pip=True, clear=True)
        pip(PYTHON, "install", *PACKAGES)
        pip(PYTHON, "install", "--no-deps", *ALONE)
        done.write_text(repr((PACKAGES, ALONE)))
    for version in VLLM:
        folder = PROGRAMS / f"vllm-{version}"
        if not folder.exists():
            take(version, folder)


def take(version: str, folder: Path) -> None:
    """The files of this vLLM that say how it turns, from its wheel."""
    room = PROGRAMS / "wheel"
    shutil.rmtree(room, ignore_errors=True)
    pip(
        Path(sys.executable), "download", "--no-deps", "--only-binary", ":all:", f"vllm=={version}", "-d", str(room)
    )
    with zipfile.ZipFile(next(room.glob("*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if name.startswith(FILES)]
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
