"""Export of the lab as pages that need no server. They contain compressed answers for the settings of the sliders.

A page works as a local file or from any static server, and says for which states of the controls it has no
answer.
"""

import base64
import gzip
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from importlib.metadata import files
from pathlib import Path
from typing import Any

import torch

from posenc.errors import PosencError
from posenc.pictures import assets, wire
from posenc.teaching.lab import page
from posenc.teaching.lab.controls import Control
from posenc.teaching.lab.page import Site
from posenc.teaching.lab.rooms import ROOMS, Stage

Texts = tuple[tuple[str, str], ...]
"""A state of a stage: the names and values of the controls that differ from their defaults, in the stage's
order.
"""

MOST = 135_000
"""The largest number of characters in a stage's compressed answers, so that a page stays under 300 kB."""
WHOLE = 256
"""The largest number of combinations of control values that a page stores completely. The limit applies to all
controls of a stage, and separately to those controls that are set in the picture. The stage on the first page
has no limit.
"""
FINE, FEWEST = 65, 4
"""The largest number of stops of a control, and the number of stops that always remain: both ends, the middle
and the default.
"""
SHORT = 24
"""The number of characters up to which a piece of JSON is repeated, because a reference would not be shorter."""
CARD = f"""\
---
title: posenc lab
colorFrom: blue
colorTo: yellow
sdk: static
app_file: index.html
license: apache-2.0
---

# posenc lab

{page.ABOUT}

These pages are static. Put the folder on any static host, or push it to a Hugging Face Space as it is. The pages
also work from a local disk, and load nothing from elsewhere. `posenc lab --export FOLDER` wrote them. Licence:
Apache-2.0, see `LICENSE`.
"""
"""The ``README.md`` of an exported lab, with the front matter that a Hugging Face Space reads."""


def write(folder: Path, track: Callable[[Sequence[Stage]], Iterable[Stage]] = iter) -> list[Path]:
    """Write the whole lab as a site into ``folder``, with README and licence, and return the files, pages first.

    ``track`` iterates over the stages and may show progress.
    """
    torch.set_num_threads(1)  # answers are small: a second thread would save no time
    (folder / "data").mkdir(parents=True, exist_ok=True)
    rooms = [replace(r, stages=[answerable(s) if s.fresh else s for s in r.stages]) for r in ROOMS]
    computed = {
        stage.question: packed(stage) for stage in track([stage for room in rooms for stage in room.stages])
    }
    stops = {name: stops for name, (_, stops) in computed.items()}
    docs = "../index.html" if (folder.resolve().parent / "index.html").is_file() else ""
    site = replace(saved(), answers_file=lambda stage: f"data/{stage.question}.js", stops=stops, docs=docs)
    pages = {
        "index": page.home(site),
        page.CARDS: page.cards(site),
        page.PATHS: page.paths(site),
        page.CLAIMS: page.claims(site),
        **{room.name: page.room_page(room, {}, site) for room in rooms},
    }
    licence = next(path for path in files("posenc") or () if path.name == "LICENSE")
    texts = {
        **{folder / f"{name}.html": text for name, text in pages.items()},
        **{folder / "data" / f"{name}.js": script_of(name, text) for name, (text, _) in computed.items()},
        folder / "README.md": CARD,
        folder / "LICENSE": licence.read_text("utf-8"),
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*texts]


def script_of(name: str, text: str) -> str:
    """Return compressed answers as a classic script, which a page opened from disk can load."""
    return f'(globalThis.posencAnswers ??= {{}})["{name}"] = "{text}";\n'


def answerable(stage: Stage) -> Stage:
    """Return a stage of a study with only the suggestions, and the tasks of its control, that the study can answer.

    If the study lacks the default task, the first task that it has is the default. If it has none, all remain.
    """
    (control,) = stage.controls
    options = {t: w for t, w in control.shown.items() if _answer(stage, ((control.name, t),))} or control.shown
    default = control.default if control.default in options else next(iter(options))
    return replace(
        stage,
        tries=[(words, state) for words, state in stage.tries if _answer(stage, tuple(state.items()))],
        controls=[replace(control, options=options, default=default)],
    )


def packed(stage: Stage) -> tuple[str, dict[str, list[str]]]:
    """Return a stage's answers, compressed, and the values of each control for which there are answers.

    There are answers for the first state and for states in which one control has another value. There are also
    answers for states that differ from a suggested state in one control, unless the compressed answers would
    then exceed ``MOST`` characters. If the answers are too large even without the answers around suggested
    states, half of the values of the control with the largest answers are dropped, repeatedly, until the answers
    are small enough.
    """
    answer = cache(partial(_answer, stage))
    weight = cache(lambda name, *texts: len(packed_answers({name: texts})))

    def packed_answers(stops: Mapping[str, Sequence[str]], *, tries: bool = False) -> str:
        wanted = states(stage, stops, tries=tries)
        sent = {"&".join(f"{n}={t}" for n, t in state): answer(state) for state in wanted}
        return pack({address: view for address, view in sent.items() if view})

    known = {c.name: c for c in stage.controls}
    stops = {name: _thinned(_reached(stage, c), FINE, c.default) for name, c in known.items()}
    answers = packed_answers(stops)
    if len(answers) * (1 + len(stage.tries)) <= 2 * MOST:  # sharing saves less than half
        with_tries = packed_answers(stops, tries=True)
        answers = with_tries if len(with_tries) <= MOST else answers
    while len(answers) > MOST and (many := [name for name, each in stops.items() if len(each) > FEWEST]):
        name = max(many, key=lambda name: weight(name, *stops[name]))
        stops[name] = _thinned(stops[name], len(stops[name]) // 2 + 1, known[name].default)
        answers = packed_answers(stops)
    return answers, {name: list(each) for name, each in stops.items() if each}


def _reached(stage: Stage, control: Control) -> Sequence[str]:
    """Return the stops of a control. If ``control.below`` names another control, keep only the stops that are
    smaller than the other control's largest value. The other control's values are taken from the first state and
    from the suggested states that set ``control``.
    """
    if not control.below:
        return control.settable
    over = next(c for c in stage.controls if c.name == control.below)
    asked = [{}, *(state for _, state in stage.tries if control.name in state)]
    end = max(float(state.get(over.name, over.default)) for state in asked)
    return [stop for stop in control.settable if float(stop) < end]


def states(stage: Stage, stops: Mapping[str, Sequence[str]], *, tries: bool) -> list[Texts]:
    """Return the states for which a page has answers: the suggested states, the states with one control changed,
    and all states if there are few.
    """
    moving = {name: each for name, each in stops.items() if each}
    tried = [dict(state) for _, state in stage.tries]
    asked = [*tried, *map(dict, [stage.guess.before, stage.guess.after] if stage.guess else [])]
    for grid in (moving, {name: moving.get(name, []) for name in stage.picks}):
        if stage.question == page.HERO or math.prod(map(len, grid.values())) <= WHOLE:
            asked += [dict(zip(grid, texts, strict=True)) for texts in itertools.product(*grid.values())]
    for centre in [{}, *(tried if tries else ())]:
        asked += [centre, *(centre | {name: text} for name, each in stops.items() for text in each)]
    return list(dict.fromkeys(_state(stage, state) for state in asked))


def _state(stage: Stage, texts: Mapping[str, str]) -> Texts:
    return tuple((c.name, texts[c.name]) for c in stage.controls if texts.get(c.name, c.default) != c.default)


def _thinned(stops: Sequence[str], count: int, default: str) -> list[str]:
    """Return at most ``count`` evenly spaced stops with both ends, and the default stop."""
    if len(stops) <= count:
        return list(stops)
    places = {round(i * (len(stops) - 1) / (count - 1)) for i in range(count)}
    return [stop for i, stop in enumerate(stops) if i in places or stop == default]


def _answer(stage: Stage, state: Texts) -> dict[str, Any] | None:
    """Return a stage's answer for a state, including the strings that appear at the pointer, or None if the
    library raises an error.
    """
    try:
        return wire.alone(stage.answer(dict(state)))
    except PosencError:
        return None


def pack(content: Any) -> str:
    """Return JSON with one part per line, compressed, as base64.

    A part that is longer than a reference is stored once; the last line is the content, with references to parts.
    """
    parts: dict[str, int] = {}

    def placed(value: Any, short: int = SHORT) -> Any:
        if isinstance(value, dict):
            value = {key: placed(part) for key, part in value.items()}
        elif isinstance(value, list | tuple):
            value = [part if type(part) is float else placed(part) for part in value]
        elif not isinstance(value, str):
            return value
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return value if len(text) <= short else {"#": parts.setdefault(text, len(parts))}

    placed(content, short=0)  # the content itself is always stored as a part, and is the last line
    return base64.b64encode(gzip.compress("\n".join(parts).encode(), 9, mtime=0)).decode()


@lru_cache(maxsize=1)
def saved() -> Site:
    """Return the site, with style and scripts inside its pages, and with a content security policy that allows only
    these scripts and what they load.
    """
    early = (page.STATIC / "theme.js").read_text("utf-8")
    style, script = assets.style(page.STATIC / "lab.css"), assets.bundle(page.STATIC / "lab.js")
    policy = (
        f"default-src 'none'; script-src {_hash(early)} {_hash(script)} 'strict-dynamic'; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Site(saved=True, style=style, early=early, script=script, policy=policy)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
