"""Measure every model type of the installed transformers, and compare the result with what posenc reads.

    python -m tools.walk                      # all types, two at a time; resumes if it was stopped
    python -m tools.walk --types llama,t5     # some types, only printed

To measure types again, delete their lines in tools/walked.

With another version of transformers, the command writes separate results and prints what changed between it and the
newest measured version. docs/models.md shows the newest version, and what changed since the oldest.

Every type is measured in a process of its own with limits on processor time and memory, forked from one that has
imported torch and transformers. Each result is written as soon as it is known.
"""

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from datetime import date
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from tools.walk_page import KEPT, Walk, changes, kept, page

from tools import walk_type

MEMORY = 6 * 2**30
"""The number of bytes that measuring a type may use."""
CONTEXT = multiprocessing.get_context("forkserver")


def work(name: str, limit: float, result: Connection) -> None:
    """Measure a type in this process, which a signal ends after ``limit`` seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    signal.setitimer(signal.ITIMER_PROF, limit)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        result.send(walk_type.walked(name))


def ask(name: str, limit: float) -> dict[str, object]:
    """Return the result of a type from a separate process, or the reason why there is no result."""
    mine, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=work, args=(name, limit, theirs))
    with theirs:
        process.start()
    with mine, suppress(EOFError):
        found: dict[str, object] = mine.recv()
        return found
    process.join()
    late = process.exitcode == -signal.SIGPROF
    why = f"takes more than {limit:g} s" if late else "ends the process that builds it"
    return {"type": name, "class": "cannot be built", "why": why}


def results(names: list[str], workers: int = 2, limit: float = 300.0) -> Iterator[dict[str, object]]:
    """Yield one result per type, in the order of names; each may take ``limit`` seconds of processor time."""
    CONTEXT.set_forkserver_preload(["tools.walk_type"])
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(partial(ask, limit=limit), names)


def main() -> None:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__.splitlines()[0])
    parser.add_argument("--types", help="some types, separated by commas; nothing is written")
    given = parser.parse_args()
    version, names = transformers.__version__, sorted(CONFIG_MAPPING_NAMES)
    KEPT.mkdir(exist_ok=True)
    if given.types:
        for found in results(given.types.split(",")):
            print(json.dumps(found, indent=1))
        return
    (KEPT / f"walk-{version}.types").write_text("\n".join((f"{date.today():%Y-%m-%d}", *names)))
    results_of = KEPT / f"walk-{version}.jsonl"
    results_of.touch()
    known = next(walk for walk in kept(KEPT) if walk.version == version)
    missing = [name for name in names if name not in known.found]
    with results_of.open("a") as lines:
        for count, found in enumerate(results(missing), 1):
            known.found[str(found["type"])] = found
            print(json.dumps(found), file=lines, flush=True)
            print(f"{count}/{len(missing)}  {found['type']}: {found['class']}", file=sys.stderr)
    print(told(known))


def told(walk: Walk) -> str:
    """Return the page for the newest version, or for an older version the changes from it to the newest version."""
    walks = kept(KEPT)
    return page(walks) if walk.version == walks[-1].version else "\n".join(changes(walk, walks[-1]))


if __name__ == "__main__":
    main()
