"""Install the programs that `make programs` runs into build/programs, at exact versions, outside the environment.

Run `python tools/programs.py` with the environment's Python. Each program's file in
`src/posenc/integrations/programs/` lists the files to extract from a wheel, and their requirements, which are
installed into a separate environment. transformers 4 gets a folder for PYTHONPATH and uses the environment's torch.
"""

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from posenc.integrations.program_names import NAMES
from posenc.integrations.program_tables import Releases

PROGRAMS = Path(__file__).parents[1] / "build" / "programs"
TRANSFORMERS_4 = "transformers==4.57.6", "huggingface-hub==0.36.2", "tokenizers==0.22.2"
LONGPPL = ("longppl==0.3.0",)
DUAL_CHUNK = ("vllm==0.10.2",)
"""The vLLM release with Dual Chunk Attention, which later releases lack; only its rotary files are used."""
LM_EVAL = "lm-eval==0.4.13"
"""The lm-evaluation-harness, in a separate environment that also uses the packages of this environment."""
PYTHON = PROGRAMS / "env" / "bin" / "python"


def main() -> None:
    """Install the missing programs."""
    names = [name for name in NAMES if name != "transformers"]  # installed separately below
    everything: list[Releases] = [
        import_module(f"posenc.integrations.programs.{name}").PROGRAM.releases for name in names
    ]
    requirements = [requirement for one in everything for requirement in one.requirements]
    done = PROGRAMS / "env" / "installed"
    if not done.exists() or done.read_text() != repr(requirements):
        venv.create(PROGRAMS / "env", with_pip=True, clear=True)
        pip(PYTHON, "install", *requirements)
        done.write_text(repr(requirements))
    for one in everything:
        for version in one.versions:
            take([f"{one.package}=={version}"], one.files, PROGRAMS / f"{one.package}-{version}")
    for under in sorted({under for one in everything for under in one.under}):
        take(under.split(), ("",), PROGRAMS / under.split()[0].replace("==", "-"))
    harness = PROGRAMS / "lm_eval"
    if not (harness / LM_EVAL).exists():
        venv.create(harness, with_pip=True, clear=True)
        (site,) = harness.glob("lib/*/site-packages")
        (site / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        pip(harness / "bin" / "python", "install", LM_EVAL)
        (harness / LM_EVAL).touch()
    rotary = ("vllm/model_executor/layers/rotary_embedding/",)
    for released, files in ((TRANSFORMERS_4, ("",)), (LONGPPL, ("",)), (DUAL_CHUNK, rotary)):
        take(released, files, PROGRAMS / released[0].replace("==", "-"))


def take(requirements: Iterable[str], files: tuple[str, ...], folder: Path) -> None:
    """Extract files with these prefixes from the packages' wheels: only ``.py`` files, or all for ``("",)``."""
    taken = folder / "taken"
    if taken.exists() and taken.read_text() == repr(files):
        return
    room = PROGRAMS / "wheel"
    shutil.rmtree(room, ignore_errors=True)
    pip(Path(sys.executable), "download", "--no-deps", "--only-binary", ":all:", *requirements, "-d", str(room))
    for file in room.glob("*.whl"):
        with zipfile.ZipFile(file) as wheel:
            names = [name for name in wheel.namelist() if name.startswith(files)]
            wheel.extractall(room / "taken", [name for name in names if name.endswith(".py") or files == ("",)])
    shutil.rmtree(folder, ignore_errors=True)
    (room / "taken").rename(folder)
    taken.write_text(repr(files))
    shutil.rmtree(room)


def pip(python: Path, command: str, *arguments: str) -> None:
    """Run this Python's pip quietly."""
    subprocess.run(
        [str(python), "-m", "pip", command, "--quiet", "--disable-pip-version-check", *arguments], check=True
    )


if __name__ == "__main__":
    main()
