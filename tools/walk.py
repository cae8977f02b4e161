"""Walks every model type of the installed transformers: measures it, reads it, compares, and writes docs/models.md.

    python -m tools.walk                      # all types, two at a time; goes on where it was stopped
    python -m tools.walk --types llama,t5     # some, told on the screen only

Every type is measured in a worker process, which a type that takes too long of the processor's time ends, and which
has so much memory and no more; each result is kept at once.
"""

import argparse
import json
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue

from tools.walk_page import page

ROOT = Path(__file__).resolve().parents[1]
FEW = 60
"""Types that a worker takes before it is replaced, since the code of every model stays in its memory."""
MEMORY = 6 * 2**30
"""Bytes that a worker may have; a type that wants more is refused them, and says so."""
PATIENCE = 20
"""How many times its limit a worker is waited for, whose processor others may share."""


def work(limit: float) -> None:
    """A worker: model types come in by line, results leave as JSON by line; a signal ends it at its limit."""
    from tools.walk_type import walked

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, limit)
        print(json.dumps(walked(line.strip())), file=out, flush=True)


class Worker:
    """A worker process, started when first asked and again after it was ended."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.process: subprocess.Popen[str] | None = None
        self.taken = 0

    def ask(self, name: str) -> dict[str, object]:
        """The result of a type, or that it could not be had in time."""
        if self.process is None or self.taken >= FEW:
            self.end()
            command = [sys.executable, "-W", "ignore", "-m", "tools.walk", "--work", "--limit", f"{self.limit:g}"]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
            )
            self.taken = 0
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
        self.taken += 1
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE * self.limit)
        line = process.stdout.readline() if ready else ""
        if line:
            found: dict[str, object] = json.loads(line)
            return found
        late = not ready or process.wait() == -signal.SIGPROF
        self.end()
        why = f"takes more than {self.limit:g} s" if late else "ends the process that builds it"
        return {"type": name, "class": "cannot be built", "why": why}

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def results(names: list[str], workers: int, limit: float) -> Iterator[dict[str, object]]:
    """One result a type, as they come."""
    waiting: SimpleQueue[str] = SimpleQueue()
    done: SimpleQueue[dict[str, object]] = SimpleQueue()
    for name in names:
        waiting.put(name)

    def serve() -> None:
        worker = Worker(limit)
        try:
            while True:
                done.put(worker.ask(waiting.get_nowait()))
        except Empty:
            worker.end()

    with ThreadPoolExecutor(workers) as pool:
        for _ in range(workers):
            pool.submit(serve)
        for _ in names:
            yield done.get()


def versions() -> tuple[str, list[str]]:
    """The version of transformers, and its model types."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return transformers.__version__, sorted(CONFIG_MAPPING_NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__.splitlines()[0])
    parser.add_argument("--types", help="some types, separated by commas; nothing is written")
    parser.add_argument("--workers", type=int, default=2, help="types at a time")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of the processor that one may take")
    parser.add_argument("--again", help="classes to walk again, separated by commas; 'all' for everything")
    parser.add_argument("--page", action="store_true", help="write the page from what was walked so far")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        return work(given.limit)
    version, names = versions()
    if given.types:
        for found in results(given.types.split(","), 1, given.limit):
            print(json.dumps(found, indent=1))
        return None
    kept = ROOT / "build" / f"walk-{version}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    lines = kept.read_text().splitlines() if kept.exists() else []
    known = {one["type"]: one for one in map(json.loads, lines)}
    again = given.again.split(",") if given.again else []
    known = {name: one for name, one in known.items() if "all" not in again and one["class"] not in again}
    missing = [name for name in names if name not in known]
    if given.page:
        missing = []
    with kept.open("a") as file:
        for count, found in enumerate(results(missing, given.workers, given.limit), 1):
            known[str(found["type"])] = found
            print(json.dumps(found), file=file, flush=True)
            print(f"{count}/{len(missing)}  {found['type']}: {found['class']}", file=sys.stderr)
    print(page(version, [known[name] for name in names if name in known], len(names), ROOT / "docs" / "models.md"))
    return None


if __name__ == "__main__":
    main()
