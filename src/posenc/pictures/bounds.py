"""Which values every setting of every view can take: read by the views, the command line and the lab's sliders.

Nothing here imports torch, so that a page with its controls is there before a view is first computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc.errors import InvalidArgument

FAR = 2**31 - 1
"""The last position whose phase the clock promises."""


@dataclass(frozen=True)
class Bounds:
    """From ``low`` to ``high``, and below the setting named ``below`` where there is one."""

    low: float
    high: float
    below: str = ""


SEED = Bounds(0, 2**31 - 1)
BASE = Bounds(2, 1e9)
WIDTH, LENGTH = Bounds(2, 1024), Bounds(2, 4096)
FURTHEST = Bounds(1, 8192)
STEP = Bounds(1, 4)
_SCALING = {
    "rotary_dim": Bounds(4, 1024),
    "base": Bounds(100, 1e9),
    "factor": Bounds(1, 1024),
    "original_length": Bounds(2, FAR),
}

BOUNDS: dict[str, dict[str, Bounds]] = {
    "heatmap": {
        "width": WIDTH,
        "length": LENGTH,
        "base": BASE,
        "first": Bounds(0, 4095, below="length"),
        "second": Bounds(0, 4095, below="length"),
    },
    "hands": {"width": Bounds(2, 16), "position": Bounds(0, FAR), "base": BASE},
    "waves": {
        "width": WIDTH,
        "dimensions": Bounds(0, 1023, below="width"),
        "first": Bounds(0, 1_000_000),
        "last": Bounds(1, 1_004_096),
        "base": BASE,
    },
    "similarity": {"width": WIDTH, "length": LENGTH, "base": BASE},
    "wavelengths": {"width": WIDTH, "base": BASE},
    "falloff": {"width": WIDTH, "furthest": Bounds(2, 4096), "base": BASE},
    "shift": {"width": Bounds(2, 32), "by": Bounds(0, 10_000), "base": BASE},
    "score": {
        "head_dim": WIDTH,
        "furthest": FURTHEST,
        "peak": Bounds(0, 8191, below="furthest"),
        "seed": SEED,
        "base": BASE,
    },
    "spread": {"head_dim": Bounds(2, 512), "furthest": FURTHEST, "draws": Bounds(2, 1000), "seed": SEED},
    "slopes": {"heads": Bounds(1, 128), "max_exponent": Bounds(1, 16)},
    "bias": {"heads": Bounds(1, 8), "length": Bounds(2, 512)},
    "weights": {"heads": Bounds(1, 16), "length": LENGTH},
    "added": {"heads": Bounds(1, 8), "furthest": FURTHEST, "seed": SEED},
    "attention": {"seed": SEED},
    "shuffle": {},
    "cat-sat": {"step": STEP},
    "fill": {"step": STEP},
    "fingerprint": {"position": Bounds(0, FAR)},
    "table": {"step": STEP},
    "lookup": {"position": Bounds(0, FAR), "rows": Bounds(1, 4096)},
    "rows": {"rows": Bounds(2, 1024), "width": WIDTH},
    "turning": {"step": STEP, "m": Bounds(-64, 64), "n": Bounds(-64, 64)},
    "sums": {"width": WIDTH, "words": Bounds(2, 300), "length": Bounds(2, 128), "seed": SEED},
    "counter": {"bits": Bounds(1, 8), "positions": Bounds(2, 256)},
    "properties": {},
    "shift-both": {"m": Bounds(0, 2**30), "offset": Bounds(-(2**30), 2**30)},
    "every-pair": {
        "m": Bounds(0, FAR - 4096),
        "offset": Bounds(0, 4096),
        "head_dim": Bounds(2, 64),
        "base": BASE,
        "seed": SEED,
    },
    "pairings": {"position": Bounds(0, FAR), "head_dim": Bounds(2, 64)},
    "phases": {"position": Bounds(0, FAR), "head_dim": WIDTH, "base": BASE, "pair": Bounds(0, 511)},
    "floor": {"position": Bounds(1, FAR), "head_dim": WIDTH, "base": BASE},
    "buckets": {"buckets": Bounds(4, 512), "max_distance": Bounds(3, 8192), "furthest": Bounds(8, 1024)},
    "forgetting": {"bias": Bounds(-8, 8), "seed": SEED},
    "patches": {
        "frames": Bounds(1, 8),
        "frame": Bounds(0, 7, below="frames"),
        "rows": Bounds(1, 10),
        "columns": Bounds(1, 12),
        "before": Bounds(1, 64),
        "row": Bounds(0, 9, below="rows"),
        "column": Bounds(0, 11, below="columns"),
    },
    "scaling": _SCALING,
    "extension": _SCALING,
}
"""By the view's name and its setting's; a setting that holds several numbers bounds each."""


def check(name: str, settings: Mapping[str, object]) -> None:
    """Refuse a setting of the view of this name outside what it can compute or anyone can see."""
    for setting, bounds in BOUNDS[name].items():
        given = settings[setting]
        for value in given if isinstance(given, tuple) else (given,):
            if not isinstance(value, int | float):
                continue
            other = settings.get(bounds.below)
            high = min(bounds.high, other - 1) if isinstance(other, int) else bounds.high
            if not bounds.low <= value <= high:
                until = f"; {bounds.below} is {other}" if high < bounds.high else ""
                raise InvalidArgument(
                    f"{setting}={value:.12g} must be between {bounds.low:.12g} and {high:.12g}{until}"
                )
