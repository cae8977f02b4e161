"""Makes .venv and installs the project with one extra, says what it fetches, and mends what was cut off.

`python3 tools/set_up.py EXTRA`, as the Makefile calls it. It is written for Python 3.6 and the standard library, so
that a Python which is too old can still say so.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
VENV = Path(".venv")
UNFINISHED = VENV / ".unfinished"
NETWORK = re.compile(
    r"Max retries exceeded|ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|Connection broken"
    r"|connection broken|Name or service not known|Temporary failure in name resolution|Network is unreachable"
)
DISK = re.compile(r"No space left on device|Disk quota exceeded")
LARGE = re.compile(
    r"(Downloading|Using cached|Processing) \S*?([\w.]+-[\w.+!]+)-\S+\.whl(?: \(([\d.]+) (MB|GB)\))?"
)


class Refused(Exception):  # noqa: N818 - says what it is without the suffix
    """What set-up cannot do, in one sentence."""


def main(extra):
    """Bring .venv to hold the project with this extra, and leave the stamp that make looks at."""
    refuse_old(sys.version_info)
    wait_for_others()
    announce(extra, os.environ.get("TORCH_INDEX", ""))
    sys.stdout.flush()
    make_venv()
    # Only this file tells a whole environment from one whose installation was killed; pip itself cannot.
    UNFINISHED.touch()
    install(extra, os.environ.get("TORCH_INDEX", ""))
    UNFINISHED.unlink()
    (VENV / f".{extra}").touch()


def wait_for_others():
    """Let one set-up run at a time in this folder, or one would take the other's .venv for cut off.

    The lock ends with the process.
    """
    folder = os.open(".", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("Another set-up is running in this folder; waiting for it to end.", flush=True)
        fcntl.flock(folder, fcntl.LOCK_EX)


def refuse_old(version):
    """Say which Python is needed and how to name it."""
    if tuple(version[:2]) < OLDEST:
        raise Refused(
            f"posenc needs Python 3.11 or newer and this is {'.'.join(map(str, version[:3]))}; install one and "
            "name it, for instance: make compare PYTHON=python3.12"
        )


def announce(extra, torch_index):
    """Say what is coming and how large, before anything is fetched."""
    print(f"Setting up .venv for posenc[{extra}]; packages of 10 MB or more are named as they come.")
    if any(VENV.glob("lib/python*/site-packages/torch/version.py")):
        return  # what is large is there already
    if sys.platform == "linux" and not torch_index:
        print(
            "On Linux the public build of torch brings CUDA: 3 GB to download, 7 GB on the disk. With a CPU build\n"
            "it is 0.3 to 0.6 GB: pip takes one where its sources hold it, or from TORCH_INDEX=… (CONTRIBUTING.md)."
        )
    else:
        print("With torch that is 0.3 to 0.6 GB to download.")


def make_venv():
    """Make .venv, or make it afresh where it has no working pip or its last installation never ended."""
    python = VENV / "bin" / "python"
    if not UNFINISHED.exists() and python.exists() and works(python):
        return
    if VENV.exists():
        print("An earlier set-up was cut off; starting .venv afresh.", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if made.returncode:
        said = made.stdout.decode(errors="replace")
        raise Refused(
            full_disk()
            if DISK.search(said)
            else "this Python cannot make an environment; on Debian and Ubuntu "
            "`apt install python3-venv` mends that, then run the same command again"
        )


def works(python):
    """Whether this environment's Python is new enough and has a pip that starts."""
    check = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    return subprocess.run([str(python), "-c", check], stderr=subprocess.DEVNULL).returncode == 0


def install(extra, torch_index):
    """Let pip install the project with the extra; its errors become one sentence."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "-c", "constraints.txt", "-e", f".[{extra}]"]
    if torch_index:
        command += ["--extra-index-url", torch_index]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = []
    for line in pip.stdout:
        said.append(line.decode(errors="replace").strip())
        name_large(said[-1])
    if pip.wait():
        raise Refused(reason("\n".join(said)))


def name_large(line):
    """Print a package that takes time and space, and a torch that pip's own sources hold."""
    found = LARGE.match(line)
    if not found:
        return
    how, package, size, unit = found.groups()
    name = package.replace("-", " ", 1)
    if unit == "GB" or (unit == "MB" and float(size) >= 10):
        print(f"  {name}, {size} {unit}{', already at hand' if how == 'Using cached' else ''}", flush=True)
    elif how == "Processing" and package.startswith("torch-"):
        print(f"  {name}, from pip's own sources", flush=True)


def reason(said):
    """Why pip gave up, in one sentence."""
    if DISK.search(said):
        return full_disk()
    if NETWORK.search(said):
        UNFINISHED.unlink()  # pip fetches everything before it installs anything: the environment is as it was
        return (
            "the package index cannot be reached; check the network or the proxy, then run the same command again"
        )
    errors = [line[len("ERROR: ") :] for line in said.splitlines() if line.startswith("ERROR: ")]
    return f"pip could not install the packages: {'; '.join(errors) or said.splitlines()[-1]}"


def full_disk():
    """What to do about a full disk, with how much is free."""
    free = shutil.disk_usage(".").free / 1e9
    return f"no space left on the disk ({free:.1f} GB free here); make room and run the same command again"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.errno != 28:  # ENOSPC
            raise
        sys.exit(f"error: {full_disk()}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command starts the set-up again")
