"""How long the lab takes to answer: ``python -m tools.lab_latency [ROOM or STAGE]``, p50 and p95 of every stage.

Every control goes to each of its stops while the others stand as they open. A time is that of one answer, from
its address to its bytes, without network and browser, on one thread as the server has it: on the clock, and of the
processor alone, which a busy machine leaves as it is. The first answer of a stage imports and is not counted.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping

import torch

from posenc.errors import PosencError
from posenc.pictures import wire
from posenc.teaching.lab.rooms import ROOMS, Stage

BOUND = 100.0
"""Milliseconds of p95 below which a picture follows the hand."""
READERS = ("reading", "looks")
"""Stages in which trained models read a text: they take longer, and the page shows that it waits."""


def answered(stage: Stage, state: Mapping[str, str]) -> bytes:
    """What a page is sent."""
    try:
        return json.dumps(wire.view(stage.answer(state)), ensure_ascii=False).encode()
    except PosencError as refused:
        return str(refused).encode()


def times(stage: Stage) -> tuple[list[float], list[float]]:
    """Milliseconds of each answer, of the clock and of the processor; what the library refuses counts as well."""
    asked = [{c.name: text} for c in stage.controls for text in c.settable] or [{}]
    answered(stage, {})
    clock, processor = [], []
    for state in asked:
        begun, spent = time.perf_counter(), time.process_time()
        answered(stage, state)
        clock.append(1e3 * (time.perf_counter() - begun))
        processor.append(1e3 * (time.process_time() - spent))
    return clock, processor


def p95(taken: list[float]) -> float:
    """The time below which 19 of 20 lie."""
    return sorted(taken)[min(len(taken) - 1, round(0.95 * len(taken)))]


def main(only: str) -> int:
    """Print a line a stage; how many but ``READERS`` take more of the processor than the bound."""
    torch.set_num_threads(1)
    slow = 0
    for room in ROOMS:
        for stage in room.stages:
            if only and only not in (room.name, stage.question):
                continue
            clock, processor = times(stage)
            slow += p95(processor) > BOUND and stage.question not in READERS
            median, name = statistics.median(clock), f"{room.name}/{stage.question}"
            print(
                f"{name:28}{len(clock):6} answers   p50 {median:6.1f} ms   p95 {p95(clock):6.1f} ms   "
                f"processor p95 {p95(processor):6.1f} ms",
                flush=True,
            )
    return slow


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="a room or a stage")
    slow = main(parser.parse_args().only)
    print(f"{slow} stages above {BOUND:.0f} ms")
    sys.exit(bool(slow))
