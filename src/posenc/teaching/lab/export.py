"""Exports pages that need no server: each stage with packed answers for the stops of its sliders, and one script.

A page works when opened as a local file or from any static server, and says which states are missing.
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
"""A state: the controls that differ from their defaults, in the stage's order."""

MOST = 135_000
"""The most characters of a stage's pack; page, script and first picture together stay under 300 kB."""
WHOLE = 160
"""A page has every combination of its controls up to this number of states; the first page always has."""
FINE, FEWEST = 65, 4
"""The most stops of a control on a page, and the least for the largest control: its ends, middle and default."""
SHORT = 24
"""The length of JSON up to which a reference saves nothing."""
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

These pages are static. Put the folder on any static host, or push it to a Hugging Face Space as it is. They also
work from a disk, and load nothing from elsewhere. `posenc lab --export FOLDER` wrote them. Licence: Apache-2.0, see
`LICENSE`.
"""
"""``README.md`` of an exported lab, with the front matter that a Hugging Face Space reads."""


def write(folder: Path, track: Callable[[Sequence[Stage]], Iterable[Stage]] = iter) -> list[Path]:
    """Write the whole lab as a site into ``folder``, with its card and licence; returns the files, pages first.

    ``track`` shows the progress over stages.
    """
    torch.set_num_threads(1)  # answers are small: a second thread would save no time
    (folder / "data").mkdir(parents=True, exist_ok=True)
    packs: dict[str, str] = {}
    stops: dict[tuple[str, str], Sequence[str]] = {}
    for stage in track([stage for room in ROOMS for stage in room.stages]):
        packs[stage.question], slider_stops = packed(stage)
        stops |= {(stage.question, name): texts for name, texts in slider_stops.items()}
    docs = "../index.html" if (folder.resolve().parent / "index.html").is_file() else ""
    site = replace(saved(), answers_file=lambda stage: f"data/{stage.question}.js", stops=stops, docs=docs)
    site = _sealed(site)
    pages = {"index": page.home(site), page.CARDS: page.cards(site), page.PATHS: page.paths(site)}
    pages[page.CLAIMS] = page.claims(site)
    pages |= {each.name: page.room_page(each, {}, site) for each in ROOMS}
    paths = [folder / f"{name}.html" for name in pages] + [folder / "data" / f"{name}.js" for name in packs]
    for path, text in zip(paths, (*pages.values(), *itertools.starmap(script_of, packs.items())), strict=True):
        path.write_text(text, encoding="utf-8")
    licence = next(path for path in files("posenc") or () if path.name == "LICENSE")
    texts = {folder / "README.md": CARD, folder / "LICENSE": licence.read_text("utf-8")}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*paths, *texts]


def script_of(name: str, text: str) -> str:
    """A pack as a classic script, which a page opened from disk can load."""
    return f'(globalThis.posencAnswers ??= {{}})["{name}"] = "{text}";\n'


def packed(stage: Stage) -> tuple[str, dict[str, list[str]]]:
    """A stage's answers around its first state, and the stops of each control that they cover.

    If they are too large, the states around those to try are dropped, then half the stops of the largest control,
    and so on.
    """
    answer = cache(partial(_answer, stage))
    weight = cache(lambda name, *texts: len(packed_answers({name: texts})))

    def packed_answers(stops: Mapping[str, Sequence[str]], *, tries: bool = False) -> str:
        wanted = states(stage, stops, tries=tries)
        sent = {"&".join(f"{n}={t}" for n, t in state): answer(state) for state in wanted}
        return pack({address: view for address, view in sent.items() if view})

    known = {c.name: c for c in stage.controls}
    stops = {name: _thinned(_reached(stage, c), FINE, c.default) for name, c in known.items()}
    if stage.fresh:  # a study may lack some tasks
        stops = {name: [t for t in each if answer(_state(stage, {name: t}))] for name, each in stops.items()}
    answers = packed_answers(stops, tries=True)
    if len(answers) > MOST:
        answers = packed_answers(stops)
    while len(answers) > MOST and (many := [name for name, each in stops.items() if len(each) > FEWEST]):
        name = max(many, key=lambda name: weight(name, *stops[name]))
        stops[name] = _thinned(stops[name], len(stops[name]) // 2 + 1, known[name].default)
        answers = packed_answers(stops)
    return answers, {name: list(each) for name, each in stops.items() if each}


def _reached(stage: Stage, control: Control) -> Sequence[str]:
    """The stops of a control in the states to try, since it may have to stay below another control."""
    if not control.below:
        return control.settable
    over = next(c for c in stage.controls if c.name == control.below)
    asked = [{}, *(t.state for t in stage.tries if control.name in t.state)]
    end = max(float(state.get(over.name, over.default)) for state in asked)
    return [stop for stop in control.settable if float(stop) < end]


def states(stage: Stage, stops: Mapping[str, Sequence[str]], *, tries: bool) -> list[Texts]:
    """The states of a page: all if they are few, else those with one control moved from a state to try."""
    moving = {name: each for name, each in stops.items() if each}
    tried = [dict(t.state) for t in stage.tries]
    guessed = [stage.guess.before, stage.guess.after] if stage.guess else []
    asked = [*tried, *map(dict, guessed)]
    if stage.question == page.HERO or math.prod(map(len, moving.values())) <= WHOLE:
        asked += [dict(zip(moving, texts, strict=True)) for texts in itertools.product(*moving.values())]
    for centre in [{}, *(tried if tries else ())]:
        asked += [centre, *(centre | {name: text} for name, each in stops.items() for text in each)]
    return list(dict.fromkeys(_state(stage, state) for state in asked))


def _state(stage: Stage, texts: Mapping[str, str]) -> Texts:
    given = ((c.name, texts.get(c.name, c.default), c.default) for c in stage.controls)
    return tuple((name, text) for name, text, default in given if text != default)


def _thinned(stops: Sequence[str], count: int, default: str) -> list[str]:
    """At most ``count`` evenly spaced stops, including the ends and the default."""
    if len(stops) <= count:
        return list(stops)
    places = {round(i * (len(stops) - 1) / (count - 1)) for i in range(count)}
    return [stop for i, stop in enumerate(stops) if i in places or stop == default]


def _answer(stage: Stage, state: Texts) -> dict[str, Any] | None:
    """The answer for the page, with the words under the pointer; None if the library refuses."""
    try:
        view = stage.answer(dict(state))
    except PosencError:
        return None
    return wire.alone(view)


def pack(content: Any) -> str:
    """JSON with one part per line, compressed, as base64: a part longer than a reference is stored once, the whole
    is last."""
    parts: dict[str, int] = {}

    def placed(value: Any, short: int = SHORT) -> Any:
        if isinstance(value, dict):
            value = {key: placed(part) for key, part in value.items()}
        elif isinstance(value, list | tuple):
            value = [placed(part) for part in value]
        elif not isinstance(value, str):
            return value
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return value if len(text) <= short else {"#": parts.setdefault(text, len(parts))}

    placed(content, short=0)  # the whole of a state is little more than references, and is a line
    return base64.b64encode(gzip.compress("\n".join(parts).encode(), 9, mtime=0)).decode()


@lru_cache(maxsize=1)
def saved() -> Site:
    """The style and scripts of every saved page."""
    early = (page.STATIC / "theme.js").read_text("utf-8")
    style, script = assets.style(page.STATIC / "lab.css"), assets.bundle(page.STATIC / "lab.js")
    return Site(saved=True, style=style, early=early, script=script)


def _sealed(site: Site) -> Site:
    """The site with its content policy: these scripts by hash, what they load, and nothing else."""
    scripts = " ".join(_hash(text) for text in (site.early, site.script))
    policy = (
        f"default-src 'none'; script-src {scripts} 'strict-dynamic'; style-src {_hash(site.style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return replace(site, policy=policy)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
