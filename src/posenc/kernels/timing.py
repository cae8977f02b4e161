"""Times ways that are equally right against each other, and decides by the figures: pure of any device or clock."""

import time
from collections.abc import Callable, Mapping

from posenc.kernels.choose import Choice

MARGIN = 0.15
"""What a way has to win by before it replaces the first, as a share of its time.

More than other work on the machine moves one timing, so that the same machine decides the same every time.
"""


def race(ways: Mapping[str, Callable[[], object]], rounds: int = 2) -> dict[str, float]:
    """The least seconds of each, run in turn after one run that does not count."""
    for run in ways.values():
        run()
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            begin = time.perf_counter()
            run()
            least[name] = min(least[name], time.perf_counter() - begin)
    return least


def decide(seconds: Mapping[str, float]) -> Choice:
    """The first way, unless another is faster by more than ``MARGIN``; the reason quotes what was measured."""
    first, fastest = next(iter(seconds)), min(seconds, key=lambda name: seconds[name])
    took = ", ".join(f"{name} {1e3 * s:.1f} ms" for name, s in seconds.items())
    if seconds[fastest] < (1 - MARGIN) * seconds[first]:
        return Choice(fastest, f"measured here: {took}")
    return Choice(first, f"measured here: {took}; {first} stays, as nothing wins by {MARGIN:.0%}")
