"""Every question that can be asked of the lab: which view answers it, and with which bounded parameters.

Nothing here imports torch: the page is built from these names before a view is first computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from posenc.errors import UnknownName
from posenc.workbench.lab.parameters import (
    Arrangement,
    Choice,
    Number,
    Numbers,
    Parameter,
    Sentence,
    Switch,
    read,
)
from posenc.workbench.palette import style

if TYPE_CHECKING:
    from posenc.workbench.views.view import View


@dataclass(frozen=True)
class Question:
    """A view by its place in the workbench, ``module:function``, and the parameters that a request may set."""

    home: str
    parameters: tuple[Parameter, ...] = ()
    fresh: bool = False
    """Whether the same words may have a new answer, as a ledger that grows has."""

    def answer(self, texts: Mapping[str, str]) -> "View":
        """The view for these texts of a query; InvalidArgument where one is unknown or out of bounds."""
        answered: View = self.function(**read(self.parameters, texts))
        return answered

    @property
    def function(self) -> Callable[..., "View"]:
        """The view, imported when it is first asked."""
        module, name = self.home.split(":")
        found: Callable[..., View] = getattr(import_module(f"posenc.workbench.{module}"), name)
        return found


def find(name: str) -> Question:
    """The question of this name."""
    if name not in QUESTIONS:
        raise UnknownName("question", name[:40], QUESTIONS)
    return QUESTIONS[name]


SHOWN = (
    *("sinusoidal", "learned", "rotary", "xpos", "pope", "fope", "hope-high-frequency", "alibi", "t5", "fox"),
    *("ssmax", "kerple", "sandwich", "shaw", "inkling", "transformer-xl", "deberta", "cope"),
)
"""The encodings of one axis that look like no other in a layer that reads a sentence."""
ENCODINGS = {"nope": "none"} | {name: style(name).label for name in SHOWN}
BASES = (2, 10, 100, 1_000, 10_000, 100_000, 500_000, 1_000_000, 10_000_000)
FAR = (0, 1, 10, 100, 1_000, 4_096, 10_000, 32_768, 100_000, 131_072, 1_000_000, 10_000_000, 10**8, 2**31 - 1)
WIDTHS = (8, 16, 32, 64, 128, 256, 512)


def _base(low: float = 2) -> Number:
    stops = tuple(base for base in BASES if base >= low)
    return Number("base", "base", 10_000.0, low=low, high=1e9, step=1.0, stops=stops)


def _widths(name: str, label: str, default: int, most: int = 512, argument: str = "") -> Choice:
    return Choice(
        name, label, default, {str(w): str(w) for w in WIDTHS if w <= most}, whole=True, argument=argument
    )


def _step(*names: str, first: int) -> Choice:
    """Frames to step through; the page starts at the one that says most."""
    return Choice("step", "frame", first, {str(i): label for i, label in enumerate(names, 1)}, whole=True)


CAUSAL = Switch("causal", "causal mask", False)
ENCODING = Choice("encoding", "positions", "nope", ENCODINGS)

TASKS = ("language", "ordering", "needle", "recent", "copying")
TASK = Choice("task", "task", "ordering", {name: name for name in TASKS})

METHODS = {
    "default": "none",
    "linear": "PI (linear)",
    "ntk": "NTK-aware",
    "dynamic": "dynamic NTK",
    "yarn": "YaRN",
    "yarn-paper": "YaRN, ramp of the paper",
    "llama3": "Llama 3",
}
FACTOR = Number("factor", "longer by", 8.0, 1, 64, step=1.0, stops=(1, 2, 4, 8, 16, 32, 64))
TRAINED = Number(
    "trained",
    "trained length",
    4096,
    128,
    1_048_576,
    stops=(512, 1024, 2048, 4096, 8192, 32_768, 131_072),
    argument="original_length",
)

QUESTIONS: dict[str, Question] = {
    "shuffle": Question(
        "views.order_blind:shuffle",
        (
            Sentence("sentence", "sentence", "cat ate fish"),
            Arrangement("order", "new order", (2, 1, 0), of="sentence"),
            ENCODING,
            CAUSAL,
        ),
    ),
    "cat-sat": Question(
        "views.order_blind:cat_sat", (_step("1 words", "2 weights", "3 outputs", "4 swapped", first=3),)
    ),
    "attention": Question(
        "views.attention:maps",
        (
            Sentence("words", "words", "the cat saw the cat", most=12),
            Choice(
                "with",
                "compare with",
                "rotary",
                {k: v for k, v in ENCODINGS.items() if k != "nope"},
                argument="encoding",
            ),
            Switch("masked", "causal mask", False, argument="causal"),
            Number("seed", "random layer", 0, 0, 99),
        ),
    ),
    "heatmap": Question(
        "views.sinusoidal:heatmap",
        (
            Number("first", "first position", 3, 0, 511),
            Number("second", "second position", 20, 0, 511),
            _widths("width", "width", 64),
            Number("length", "positions", 64, 8, 512, step=8),
            _base(),
            Choice(
                "order",
                "columns",
                "interleaved",
                {"interleaved": "sin, cos, sin, cos", "block": "all sin, all cos"},
            ),
            Switch("transposed", "positions downwards", False),
        ),
    ),
    "fill": Question("views.filling:filled", (_step("1 empty", "2 row 0", "3 row 1", "4 all rows", first=4),)),
    "hands": Question(
        "views.sinusoidal:hands",
        (
            Number("position", "position", 5, 0, 2**31 - 1, stops=(*range(13), *FAR[3:])),
            _widths("hands", "width", 8, 16, argument="width"),
        ),
    ),
    "fingerprint": Question(
        "views.fingerprint:added", (Number("at", "position of “cat”", 0, 0, 64, argument="position"),)
    ),
    "waves": Question(
        "views.sinusoidal:waves",
        (
            Numbers("dimensions", "dimensions", (0, 100, 511), low=0, high=511, most=8),
            Number("last", "up to position", 20, 5, 1_000, stops=(10, 20, 50, 100, 200, 500, 1_000)),
        ),
    ),
    "similarity": Question(
        "views.sinusoidal:similarity",
        (
            _widths("similar", "width", 128, argument="width"),
            Number("square", "positions", 50, 8, 512, argument="length"),
        ),
    ),
    "wavelengths": Question("views.sinusoidal:wavelengths", (_base(),)),
    "falloff": Question(
        "views.sinusoidal:falloff",
        (_widths("dot", "width", 128, argument="width"), Number("furthest", "furthest distance", 60, 4, 512)),
    ),
    "shift": Question(
        "views.sinusoidal:shift",
        (Number("by", "move by", 5, 0, 10_000, stops=(*range(11), 20, 50, 100, 1_000)),),
    ),
    "table": Question(
        "views.table:frames", (_step("1 empty", "2 allocated", "3 looked up", "4 past the end", first=3),)
    ),
    "lookup": Question(
        "views.table:lookup",
        (
            Number("position", "position", 8, 0, 600),
            Number("rows", "rows of the table", 8, 2, 512, stops=(2, 4, 8, 16, 32, 64, 128, 256, 512)),
            Choice("past_end", "past the end", "error", {"error": "refuse", "clamp": "reuse the last row"}),
        ),
    ),
    "rows": Question(
        "views.table:similarity",
        (
            Number("count", "rows", 64, 8, 256, step=8, argument="rows"),
            _widths("columns", "width", 64, argument="width"),
        ),
    ),
    "shift-both": Question(
        "views.rotation:shift_both",
        (
            Number("m", "move both", 1, 0, 999, widget="buttons"),
            Number("offset", "offset n − m", 2, 0, 16),
            Choice(
                "turn",
                "turn per position",
                "eighth",
                {"eighth": "π/4, as in lessons", "radian": "1 rad, a real pair"},
            ),
        ),
    ),
    "every-pair": Question(
        "views.rotation:every_pair",
        (
            Number("start", "position m", 1, 0, 2**31 - 4097, stops=(*range(9), *FAR[2:-1]), argument="m"),
            Number(
                "apart",
                "offset n − m",
                2,
                0,
                4096,
                stops=(*range(9), 16, 32, 64, 128, 256, 512, 1024, 4096),
                argument="offset",
            ),
            _widths("head_dim", "head_dim", 16, 32),
            _base(),
            Number("seed", "random q and k", 0, 0, 99),
        ),
    ),
    "pairings": Question("views.rotation:pairings", (Number("place", "position", 3, 0, 100, argument="position"),)),
    "score": Question(
        "views.scores:distance",
        (
            Choice(
                "content",
                "q and k",
                "aligned",
                {"aligned": "both all ones", "random": "random", "peaked": "built to peak"},
            ),
            Number(
                "reach",
                "furthest distance",
                1024,
                512,
                8192,
                stops=(512, 1024, 2048, 4096, 8192),
                argument="furthest",
            ),
            Number("peak", "peak at", 300, 0, 511),
            _widths("channels", "head_dim", 128, 256, argument="head_dim"),
            _base(),
            Number("seed", "random draw", 0, 0, 99),
        ),
    ),
    "spread": Question("views.scores:spread"),
    "phases": Question(
        "views.exactness:phases",
        (
            Number("far", "position", 1_000_000, 0, 2**31 - 1, stops=FAR, argument="position"),
            Number("pair", "pair", 0, 0, 63),
            _base(),
        ),
    ),
    "slopes": Question("views.alibi:ladder", (Number("heads", "heads", 8, 1, 128),)),
    "bias": Question(
        "views.alibi:bias",
        (
            Number("few", "heads", 4, 1, 8, argument="heads"),
            Number("length", "length", 8, 2, 128),
            CAUSAL,
        ),
    ),
    "weights": Question(
        "views.alibi:weights",
        (
            Number("some", "heads", 8, 1, 16, argument="heads"),
            Number(
                "context", "length", 64, 2, 4096, stops=(8, 16, 32, 64, 128, 512, 1024, 4096), argument="length"
            ),
        ),
    ),
    "schedule": Question(
        "views.schedule:ladder",
        (
            Choice("method", "method", "yarn", METHODS, argument="schedule"),
            FACTOR,
            TRAINED,
            _base(low=100),
            _widths("rotary_dim", "rotary_dim", 128, 256),
        ),
    ),
    "extension": Question(
        "views.extension:methods", (FACTOR, TRAINED, _base(low=100), _widths("rotary_dim", "rotary_dim", 128, 256))
    ),
    "trained-table": Question(
        "lab.results:table",
        (Choice("learnt", "task", "language", {t: t for t in TASKS}, argument="task"),),
        fresh=True,
    ),
    "curves": Question("lab.results:curves", (TASK,), fresh=True),
    "positions": Question("lab.results:positions", fresh=True),
    "depths": Question(
        "lab.results:depths",
        (Choice("place", "task", "needle", {"needle": "needle", "copying": "copying"}, argument="task"),),
        fresh=True,
    ),
}
