"""Build the sdist, build the wheel from it, and test the wheel outside the checkout: the library, then each extra.

Run `python3 tools/smoke.py [EXTRAS ...]`; without arguments, all extras are tested. The wheel is built from the
sdist, so an incomplete sdist fails here. Each extra gets its own environment with only its dependencies; torch is
installed once and shared by all.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
LIBRARY = """
import hashlib, torch, posenc
torch.manual_seed(0)
rope = posenc.Rotary(head_dim=64, pairing="half")
q, k, v = torch.randn(3, 1, 8, 128, 64)
placed = rope.at(posenc.positions.arange(128))
assert posenc.attention(*placed.rotate(q, k), v, placed, causal=True).shape == v.shape
bits = hashlib.sha256()
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    for pairing in ("half", "interleaved"):
        placed = posenc.Rotary(head_dim=64, pairing=pairing, rotary_dim=42).at(posenc.positions.arange(128))
        rotated, _ = placed.rotate(q.to(dtype), None)
        bits.update(bytes(rotated.flatten().view(torch.uint8).tolist()))
print(rope.explain())
print(bits.hexdigest())
"""
STUDY = """
encodings = ["nope", "rotary"]
tasks = ["ordering"]
lengths = [1, 2]
steps = {ordering = 20}
answers = 16
"""


def main(chosen: list[str]) -> None:
    """Build, then test every extra; the first failure stops the run and prints the command's output."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        wheel = build(room)
        lent = environment(room / "torch")
        run(lent, *PIP, "-c", ROOT / "constraints.txt", "torch", "jaxtyping")
        for extra in chosen or USES:
            start = time.monotonic()
            python = environment(room / extra)
            (purelib(python) / "lent.pth").write_text(str(purelib(lent)))
            run(python, *PIP, "-c", ROOT / "constraints.txt", wheel if extra == "alone" else f"{wheel}[{extra}]")
            installed = time.monotonic()
            USES[extra](python, python.with_name("posenc"), room)
            used = time.monotonic() - installed
            print(f"{extra:<10}installed {installed - start:.0f} s, used {used:.0f} s", flush=True)


def build(room: Path) -> Path:
    """Return the wheel, built from an sdist of the files in the checkout that git does not ignore."""
    copy, builder = room / "copy", environment(room / "build")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    run(builder, *PIP, "build")
    run(builder, "-m", "build", "--outdir", ROOT / "dist", copy)
    made = sorted((ROOT / "dist").glob("posenc-*"), key=lambda path: path.stat().st_mtime)[-2:]
    for path in made:
        print(f"{path.name}  {path.stat().st_size / 1024:.0f} KiB")
    return next(path for path in made if path.suffix == ".whl")


def environment(folder: Path) -> Path:
    """Create a virtual environment and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def purelib(python: Path) -> Path:
    """Return the site-packages folder of this Python."""
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def run(*command: str | Path, status: int = 0, **settings: str) -> str:
    """Run a command outside the checkout and return its output; exit if its status is not ``status``."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=tempfile.gettempdir(),
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != status:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}, not {status}:\n{done.stdout}")
    return done.stdout


def expect(said: str, *parts: str) -> None:
    """Exit if the output lacks one of these parts."""
    for part in parts:
        if part not in said:
            sys.exit(f"{part!r} is missing from the output:\n{said}")


def alone(python: Path, posenc: Path, room: Path) -> None:
    """Check the library with and without the native kernel, and that the command names its missing extra."""
    native, bits = run(python, "-c", LIBRARY).splitlines()[-2:]
    expect(native, "native: one pass over memory")
    sdist = max((ROOT / "dist").glob("posenc-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    run(python, *PIP, "--no-deps", "--force-reinstall", "--no-cache-dir", sdist, CC="/bin/false")
    eager, same = run(python, "-c", LIBRARY).splitlines()[-2:]
    expect(eager, "eager", "was not compiled", "install a C compiler")
    expect(same, bits)
    expect(run(posenc, "--version"), "was not compiled", "torch", "python")
    expect(run(posenc, "--help", status=2), "pip install 'posenc[cli]'")


def cli(python: Path, posenc: Path, room: Path) -> None:
    """Check that the help lists the commands, and that a command runs."""
    expect(run(posenc, "--help"), "compare", "lab", "--version")
    expect(run(posenc, "verify", "--only", "float32-tables"), "1 of 1 verdicts hold")


def plot(python: Path, posenc: Path, room: Path) -> None:
    """Check that a figure is drawn."""
    run(posenc, "show", "hands", "--output", room / "hands.svg")
    expect((room / "hands.svg").read_text(), "<svg")


def compare(python: Path, posenc: Path, room: Path) -> None:
    """Check that a study of a few seconds runs, writes its report and is listed."""
    (room / "tiny.toml").write_text(STUDY)
    said = run(posenc, "compare", "--config", room / "tiny.toml", "--output", room / "study")
    expect(said, "2 runs", "report.html")
    expect(run(posenc, "runs", room / "study"), "ordering")


def hf(python: Path, posenc: Path, room: Path) -> None:
    """Check that a config is read, and that ``patched`` can be imported with transformers."""
    expect(run(posenc, "inspect", ROOT / "tests" / "data" / "configs" / "llama-3.1-8b.json"), "rotary")
    run(python, "-c", "import posenc.integrations.huggingface as hf; hf.patched")


def lab(python: Path, posenc: Path, room: Path) -> None:
    """Check that the server returns the first page."""
    with subprocess.Popen(
        [posenc, "lab", "--port", "0", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as server:
        assert server.stdout is not None
        try:
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http"))
            with urllib.request.urlopen(address, timeout=60) as page:
                expect(page.read().decode(), "<title>")
        finally:
            server.terminate()


USES: dict[str, Callable[[Path, Path, Path], None]] = {
    "alone": alone,
    "cli": cli,
    "cli,plot": plot,
    "compare": compare,
    "hf": hf,
    "lab": lab,
}
"""The test of each set of extras."""

if __name__ == "__main__":
    main(sys.argv[1:])
