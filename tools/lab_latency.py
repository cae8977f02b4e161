"""How long the lab takes to answer: ``python -m tools.lab_latency [ROOM or STAGE]``, p50 and p95 of every stage.

Every control goes to each of its stops while the others stand as they open. A time is that of one answer, from
its address to its bytes, without network and browser. The first answer of a stage imports and is not counted.
"""

import argparse
import statistics
import sys
import time
from urllib.parse import urlencode

from posenc.teaching.lab.replies import reply
from posenc.teaching.lab.rooms import ROOMS, Stage

BOUND = 100.0
"""Milliseconds of p95 below which a picture follows the hand."""


def times(stage: Stage) -> list[float]:
    """Milliseconds of each answer; states that the library refuses count as well."""
    asked = [urlencode({c.name: text}) for c in stage.controls for text in c.settable] or [""]
    reply(f"/api/{stage.question}", "")
    taken = []
    for query in asked:
        begun = time.perf_counter()
        reply(f"/api/{stage.question}", query)
        taken.append(1e3 * (time.perf_counter() - begun))
    return taken


def main(only: str) -> int:
    """Print a line a stage; how many are slower than the bound."""
    slow = 0
    for room in ROOMS:
        for stage in room.stages:
            if only and only not in (room.name, stage.question):
                continue
            taken = sorted(times(stage))
            p95 = taken[min(len(taken) - 1, round(0.95 * len(taken)))]
            slow += p95 > BOUND
            name = f"{room.name}/{stage.question}"
            print(
                f"{name:28}{len(taken):6} answers   p50 {statistics.median(taken):6.1f} ms   p95 {p95:6.1f} ms",
                flush=True,
            )
    return slow


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="a room or a stage")
    slow = main(parser.parse_args().only)
    print(f"{slow} stages above {BOUND:.0f} ms")
    sys.exit(bool(slow))
