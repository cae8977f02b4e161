"""The page of a room as HTML: words, formula and working controls, complete before a line of script runs."""

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from posenc.names import canonical
from posenc.workbench.lab.parameters import (
    Arrangement,
    Choice,
    Number,
    Numbers,
    Parameter,
    Sentence,
    Switch,
)
from posenc.workbench.lab.questions import QUESTIONS
from posenc.workbench.lab.rooms import ROOMS
from posenc.workbench.lab.rooms.room import Room, Stage, Try
from posenc.workbench.lessons.card import TOPICS

QUIZ = "check"
"""The address of the quiz."""


def page(title: str, current: str, main: str) -> str:
    """The frame around every page: the list of rooms, and what is in this one."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · posenc lab</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<script src="/static/theme.js"></script>
<link rel="stylesheet" href="/colours.css">
<link rel="stylesheet" href="/static/lab.css">
<script type="module" src="/static/lab.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the room</a>
<header class="top">
<a class="mark" href="/">posenc lab</a>
<nav aria-label="Rooms"><ol>{"".join(_entry(room, current) for room in _rooms())}</ol></nav>
<button type="button" class="plain" id="theme" hidden>Dark</button>
</header>
<main id="main" tabindex="-1">
{main}
</main>
</body>
</html>
"""


def _rooms() -> list[tuple[str, str]]:
    return [(room.name, room.short) for room in ROOMS] + [(QUIZ, "Check yourself")]


def _entry(room: tuple[str, str], current: str) -> str:
    name, short = room
    here = ' aria-current="page"' if name == current else ""
    return f'<li><a href="/{name}"{here}>{escape(short)}</a></li>'


def contents() -> str:
    """The first page: every room by its question."""
    entries = "".join(_contents_entry(room.name, room.title, room.short) for room in ROOMS)
    entries += _contents_entry(QUIZ, "What would you have said?", "Check yourself")
    main = (
        "<h1>Where is each word?</h1>"
        '<p class="lead">A transformer reads a set of vectors; positions are what makes it a sequence. Each room '
        "asks one question about them. Every number is computed by the library on this machine, and nothing "
        "leaves it.</p>"
        f'<ol class="contents">{entries}</ol>'
    )
    return page("Rooms", "", main)


def _contents_entry(name: str, question: str, short: str) -> str:
    return (
        f'<li><a href="/{name}"><span class="question">{escape(question)}</span>'
        f'<span class="quiet">{escape(short)}</span></a></li>'
    )


def quiz_page() -> str:
    """The quiz; its cards are asked from the library by the page."""
    topics = "".join(f'<option value="{name}">{escape(words)}</option>' for name, words in TOPICS.items())
    stars = "".join(f'<option value="{n}">{"★" * n}</option>' for n in (1, 2, 3))
    main = f"""<h1>What would you have said?</h1>
<p class="lead">One question at a time. Numbers are computed by the library when you answer, and every wrong choice
says why. Nothing is stored.</p>
<form class="controls filters" aria-label="Filters">
<div class="control select"><label for="topic">topic</label>
<select id="topic"><option value="">all</option>{topics}</select></div>
<div class="control select"><label for="stars">difficulty</label>
<select id="stars"><option value="">all</option>{stars}</select></div>
<p class="quiet" id="showing" role="status"></p>
</form>
<div id="quiz" class="stage"></div>"""
    return page("Check yourself", QUIZ, main)


def room_page(room: Room, texts: Mapping[str, str]) -> str:
    """A room in the state that ``texts`` describe; a text that a control cannot hold is left to the answers."""
    stages = "".join(_stage(room, stage, texts) for stage in room.stages)
    main = (
        f"<h1>{escape(room.title)}</h1>"
        f'<p class="lead">{escape(room.words)}</p>'
        f"{room.formula}"
        f'<div id="room" data-room="{room.name}">{stages}</div>'
    )
    return page(room.title, room.name, main)


def _stage(room: Room, stage: Stage, texts: Mapping[str, str]) -> str:
    parameters = QUESTIONS[stage.question].parameters
    name = stage.question
    controls = "".join(_control(name, p, texts) for p in parameters)
    words = f"<p>{escape(stage.words)}</p>" if stage.words else ""
    asked = f'data-question="{name}" data-parameters="{" ".join(p.name for p in parameters)}"'
    picks = f' data-picks="{" ".join(stage.picks)}"' if stage.picks else ""
    return f"""
<section class="stage" id="{name}" {asked}{picks}
 aria-labelledby="{name}-heading">
<h2 id="{name}-heading">{escape(stage.heading)}</h2>
{words}
{_guess(stage)}<div class="bench">
<figure class="picture"><div class="panels" aria-busy="true"><p class="waiting">Reading the library …</p></div>
<p class="probe" role="status"></p><figcaption class="answer"></figcaption></figure>
<dl class="readouts" aria-live="polite" aria-label="Readouts"></dl>
<p class="error" role="alert" hidden></p>
</div>
<form class="controls" aria-label="Controls: {escape(stage.heading)}">{controls}</form>
{_tries(room, stage)}
<div class="more">
<details class="data"><summary>The same as a table</summary><div class="tables"></div></details>
<details class="python"><summary>Show the Python</summary><pre tabindex="0"><code></code></pre>
<button type="button" class="plain copy-python">Copy</button></details>
<p class="carry"><button type="button" class="plain copy-link">Copy link</button>
<a class="export" data-kind="png" download>PNG</a> <a class="export" data-kind="svg" download>SVG</a>
<a class="export" data-kind="csv" download>CSV</a><span class="done" role="status"></span></p>
</div>
</section>"""


def _guess(stage: Stage) -> str:
    if not stage.guesses:
        return ""
    buttons = "".join(f'<button type="button">{escape(words)}</button>' for words in stage.guesses)
    return f'<div class="guess" role="group" aria-label="Your guess"><p>Your guess?</p>{buttons}</div>'


def _tries(room: Room, stage: Stage) -> str:
    if not stage.tries:
        return ""
    entries = "".join(f"<li>{_try(room, stage, t)}</li>" for t in stage.tries)
    return f'<ul class="tries" aria-label="What to try">{entries}</ul>'


def _try(room: Room, stage: Stage, t: Try) -> str:
    query = f"?{urlencode(t.state)}" if t.state else ""
    return f'<a class="try" href="/{room.name}{query}#{stage.question}">{escape(t.words)}</a>'


def _control(stage: str, p: Parameter, texts: Mapping[str, str]) -> str:
    value = texts.get(p.name, p.write(p.default))
    default = escape(p.write(p.default))
    where = f'data-name="{p.name}" data-default="{default}"'
    label, at = escape(p.label), f"{stage}-{p.name}"
    if isinstance(p, Number):
        return _number(p, where, at, value)
    if isinstance(p, Switch):
        checked = " checked" if value == "1" else ""
        return (
            f'<div class="control switch" data-kind="switch" {where}><input type="checkbox" id="{at}"{checked}>'
            f'<label for="{at}">{label}</label></div>'
        )
    if isinstance(p, Choice):
        return _choice(p, where, at, canonical(value))
    if isinstance(p, Arrangement):
        return (
            f'<div class="control arrangement" data-kind="arrangement" data-of="{p.of}" {where} '
            f'data-value="{escape(value)}"><span class="label" id="{at}">{label}</span>'
            f'<ol class="chips" aria-labelledby="{at}"></ol></div>'
        )
    assert isinstance(p, Sentence | Numbers)
    mode = ' inputmode="numeric"' if isinstance(p, Numbers) else ""
    return (
        f'<div class="control text" data-kind="text" {where}><label for="{at}">{label}</label>'
        f'<input type="text" id="{at}" value="{escape(value)}" maxlength="120" autocomplete="off" '
        f'spellcheck="false"{mode}></div>'
    )


def _number(p: Number, where: str, at: str, value: str) -> str:
    bounds = f'min="{p.low:.12g}" max="{p.high:.12g}" step="{p.step if p.whole else "any"}"'
    field = f'<input type="number" id="{at}" {bounds} value="{escape(value)}">'
    label = f'<label for="{at}">{escape(p.label)}</label>'
    if p.widget == "buttons":
        moves = "".join(
            f'<button type="button" data-by="{by}" aria-label="{escape(p.label)}: {words}">{sign}</button>'
            for by, sign, words in ((-1, "−1", "back by 1"), (1, "+1", "on by 1"))
        )
        return (
            f'<div class="control buttons" data-kind="number" {where}>{label}'
            f'<span class="pair">{moves}</span>{field}</div>'
        )
    stops = f' data-stops="{" ".join(f"{s:.12g}" for s in p.stops)}"' if p.stops else ""
    low, high, step = (0, len(p.stops) - 1, 1) if p.stops else (p.low, p.high, p.step)
    slider = (
        f'<input type="range" min="{low:.12g}" max="{high:.12g}" step="{step:.12g}"{stops} '
        f'aria-label="{escape(p.label)}, slider">'
    )
    return f'<div class="control number" data-kind="number" {where}>{label}{slider}{field}</div>'


def _choice(p: Choice, where: str, at: str, value: str) -> str:
    if len(p.options) > 5:
        options = "".join(
            f'<option value="{escape(k)}"{" selected" if k == value else ""}>{escape(words)}</option>'
            for k, words in p.options.items()
        )
        return (
            f'<div class="control select" data-kind="select" {where}><label for="{at}">{escape(p.label)}</label>'
            f'<select id="{at}">{options}</select></div>'
        )
    options = "".join(_radio(at, k, words, k == value) for k, words in p.options.items())
    return (
        f'<fieldset class="control choice" data-kind="choice" {where}><legend>{escape(p.label)}</legend>'
        f'<span class="options">{options}</span></fieldset>'
    )


def _radio(at: str, key: str, words: str, checked: bool) -> str:
    mark: Any = " checked" if checked else ""
    return (
        f'<span class="option"><input type="radio" id="{at}-{escape(key)}" name="{at}" value="{escape(key)}"{mark}>'
        f'<label for="{at}-{escape(key)}">{escape(words)}</label></span>'
    )
