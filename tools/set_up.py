"""Create .venv, install the project with one extra, announce large downloads, and repair an interrupted set-up.

The Makefile calls `python3 tools/set_up.py EXTRA`. It runs on Python 3.6 with only the standard library, so that a
Python which is too old gets a clear message.
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
    """An error of the set-up, described in one sentence."""


def main(extra):
    """Install the project with this extra into .venv, and write the stamp file that make checks."""
    refuse_old(sys.version_info)
    wait_for_others()
    announce(extra, os.environ.get("TORCH_INDEX", ""))
    sys.stdout.flush()
    make_venv()
    # Only this file distinguishes a complete environment from one whose installation was killed; pip cannot.
    UNFINISHED.touch()
    install(extra, os.environ.get("TORCH_INDEX", ""))
    UNFINISHED.unlink()
    (VENV / f".{extra}").touch()


def wait_for_others():
    """Allow one set-up at a time in this folder, because a second set-up would repair an unfinished .venv.

    The lock ends with the process.
    """
    folder = os.open(".", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("Another set-up is running in this folder; waiting for it to finish.", flush=True)
        fcntl.flock(folder, fcntl.LOCK_EX)


def refuse_old(version):
    """Refuse a Python that is too old, and say how to select another."""
    if tuple(version[:2]) < OLDEST:
        raise Refused(
            f"posenc needs Python 3.11 or newer, but this is {'.'.join(map(str, version[:3]))}; install a newer "
            "one and pass it, for instance: make compare PYTHON=python3.12"
        )


def announce(extra, torch_index):
    """Print the size of the download before it starts."""
    print(f"Setting up .venv for posenc[{extra}]; packages of 10 MB or more are listed as they are downloaded.")
    if any(VENV.glob("lib/python*/site-packages/torch/version.py")):
        return  # the large packages are already installed
    if sys.platform == "linux" and not torch_index:
        print(
            "On Linux, the public build of torch includes CUDA: 3 GB to download, 7 GB on the disk. A CPU build\n"
            "is 0.3 to 0.6 GB; pip uses it if its index has one, or if you set TORCH_INDEX=… (CONTRIBUTING.md)."
        )
    else:
        print("With torch, the download is 0.3 to 0.6 GB.")


def make_venv():
    """Create .venv, or recreate it if it has no working pip or its last installation did not finish."""
    python = VENV / "bin" / "python"
    if not UNFINISHED.exists() and python.exists() and works(python):
        return
    if VENV.exists():
        print("An earlier set-up was interrupted; recreating .venv.", flush=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if made.returncode:
        said = made.stdout.decode(errors="replace")
        raise Refused(
            full_disk()
            if DISK.search(said)
            else "this Python cannot create an environment; on Debian and Ubuntu, run "
            "`apt install python3-venv`, then the same command again"
        )


def works(python):
    """Return whether this environment's Python is new enough and its pip starts."""
    check = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    return subprocess.run([str(python), "-c", check], stderr=subprocess.DEVNULL).returncode == 0


def install(extra, torch_index):
    """Install the project with the extra through pip; raise its errors as one sentence."""
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
    """Print the name of a large package, or of torch from a configured index."""
    found = LARGE.match(line)
    if not found:
        return
    how, package, size, unit = found.groups()
    name = package.replace("-", " ", 1)
    if unit == "GB" or (unit == "MB" and float(size) >= 10):
        print(f"  {name}, {size} {unit}{', already downloaded' if how == 'Using cached' else ''}", flush=True)
    elif how == "Processing" and package.startswith("torch-"):
        print(f"  {name}, from pip's configured index", flush=True)


def reason(said):
    """Return why pip failed, in one sentence."""
    if DISK.search(said):
        return full_disk()
    if NETWORK.search(said):
        UNFINISHED.unlink()  # pip downloads everything before it installs anything, so the environment is unchanged
        return (
            "the package index cannot be reached; check the network or the proxy, then run the same command again"
        )
    errors = [line[len("ERROR: ") :] for line in said.splitlines() if line.startswith("ERROR: ")]
    return f"pip could not install the packages: {'; '.join(errors) or said.splitlines()[-1]}"


def full_disk():
    """Return the message for a full disk, with the free space."""
    free = shutil.disk_usage(".").free / 1e9
    return f"no space left on the disk ({free:.1f} GB free here); free some and run the same command again"


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
        sys.exit("stopped; run the same command to start the set-up again")
