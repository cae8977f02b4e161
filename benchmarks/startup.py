"""Start-up times of fresh processes, from their start until they have done their task."""

import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

ROUNDS = 5


def run(*words: str) -> None:
    """Run one process to its end."""
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)


def first_page() -> None:
    """Start the lab and wait for its first page."""
    command = [sys.executable, "-m", "posenc", "lab", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout is not None
        address = lab.stdout.readline().split()[4]
        urllib.request.urlopen(address).read()
        lab.terminate()


STARTS: dict[str, Callable[[], None]] = {
    "`import torch`, for comparison": lambda: run("-c", "import torch"),
    "`import posenc`": lambda: run("-c", "import posenc"),
    "`import posenc` and `posenc.Rotary`": lambda: run("-c", "import posenc; posenc.Rotary"),
    "`posenc --help`": lambda: run("-m", "posenc", "--help"),
    "`posenc lab`, to its first page": first_page,
}


def seconds(start: Callable[[], None], rounds: int = ROUNDS) -> list[float]:
    """Return the wall-clock seconds of each round."""
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        start()
        took.append(time.perf_counter() - begin)
    return took


def lines(rounds: int = ROUNDS) -> Iterator[str]:
    """Yield the lines of the section."""
    yield from (
        "## Start",
        "",
        f"Wall-clock time of fresh processes, median of {rounds}, with warm disk caches.",
        "",
    )
    yield from ("| start | seconds | all |", "| --- | ---: | --- |")
    for name, start in STARTS.items():
        took = seconds(start, rounds)
        yield f"| {name} | {statistics.median(took):.2f} | {', '.join(f'{s:.2f}' for s in sorted(took))} |"
    yield ""
