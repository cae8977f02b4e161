"""Measure how long the lab takes to answer: ``python -m tools.lab_latency [ROOM or STAGE]``.

Prints the median and the 95th percentile for every stage, in milliseconds of processor time, which other programs
do not change. The tool sets one control at a time to each of its values. The first answer of a stage imports its
code and
is not counted.
"""

import json
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

import torch

from posenc.errors import PosencError
from posenc.pictures import wire
from posenc.teaching.lab.rooms import ROOMS, Stage

BOUND = 100.0
"""The number of milliseconds within which a picture follows the mouse."""
READERS = ("reading", "looks")
"""The stages in which trained models read a text; they take longer, and the page shows that it is waiting."""


def milliseconds(stage: Stage, state: Mapping[str, str]) -> float:
    """Return the processor time of an answer, from its address to its bytes; the settings may be refused."""
    begun = time.process_time()
    with suppress(PosencError):
        json.dumps(wire.view(stage.answer(state)), ensure_ascii=False).encode()
    return 1e3 * (time.process_time() - begun)


def main(only: str = "") -> int:
    """Print a line per stage. Return the number of stages above the bound, apart from ``READERS``."""
    torch.set_num_threads(1)
    slow = 0
    for room in ROOMS:
        for stage in room.stages:
            if only not in ("", room.name, stage.question):
                continue
            milliseconds(stage, {})
            states = [{control.name: text} for control in stage.controls for text in control.settable] or [{}]
            taken = sorted(milliseconds(stage, state) for state in states)
            p95 = taken[min(len(taken) - 1, round(0.95 * len(taken)))]
            slow += p95 > BOUND and stage.question not in READERS
            name, median = f"{room.name}/{stage.question}", statistics.median(taken)
            print(f"{name:28}{len(taken):6} answers   p50 {median:6.1f} ms   p95 {p95:6.1f} ms", flush=True)
    print(f"{slow} stages above {BOUND:.0f} ms")
    return slow


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
