"""Walks every model type of the installed transformers: measures it, reads it and compares.

    python -m tools.walk                      # all types, two at a time; goes on where it was stopped
    python -m tools.walk --types llama,t5     # some, told on the screen only

Under another version of transformers the same command keeps its results beside, and says what changed up to the
newest version that was walked; docs/models.md shows that version, and what changed since the oldest.

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
from datetime import date
from pathlib import Path
from queue import Empty, SimpleQueue

from tools.walk_page import KEPT, Walk, changes, kept, page

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
    parser.add_argument(
        "--again", help="classes to forget and walk again, separated by commas; 'all' for everything"
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        return work(given.limit)
    version, names = versions()
    KEPT.mkdir(exist_ok=True)
    if given.types:
        sample = Walk(version, given.types.split(","), {})
        for found in results(sample.names, 1, given.limit):
            sample.found[str(found["type"])] = found
            print(json.dumps(found, indent=1))
        for other in kept(KEPT)[-1:]:
            if other.version != version:
                print("\n".join(changes(sample, other.only(sample.names))))
        return None
    (KEPT / f"walk-{version}.types").write_text("\n".join((f"{date.today():%Y-%m-%d}", *names)))
    results_of = KEPT / f"walk-{version}.jsonl"
    results_of.touch()
    known = next(walk for walk in kept(KEPT) if walk.version == version)
    if given.again:  # forgotten now, so that a walk that is stopped goes on with the rest of them
        again = given.again.split(",")
        known.found = {k: one for k, one in known.found.items() if "all" not in again and one["class"] not in again}
        results_of.write_text("".join(json.dumps(one) + "\n" for one in known.found.values()))
    lines = results_of.open("a")
    missing = [name for name in names if name not in known.found]
    with lines:
        for count, found in enumerate(results(missing, given.workers, given.limit), 1):
            known.found[str(found["type"])] = found
            print(json.dumps(found), file=lines, flush=True)
            print(f"{count}/{len(missing)}  {found['type']}: {found['class']}", file=sys.stderr)
    print(told(known))
    return None


def told(walk: Walk) -> str:
    """What the page has of the newest version walked; of another one, what changed from it to that one."""
    walks = kept(KEPT)
    return page(walks) if walk.version == walks[-1].version else "\n".join(changes(walk, walks[-1]))


if __name__ == "__main__":
    main()
