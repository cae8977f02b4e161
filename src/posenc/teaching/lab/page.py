"""The lab's pages as HTML: text, formulas and controls that work without a script."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from posenc.errors import MissingExtra
from posenc.names import ALIASES
from posenc.pictures.assets import templates
from posenc.pictures.colours import tones
from posenc.teaching.lab.rooms import ORDER, ROOMS, Room, Stage, find, place
from posenc.teaching.lessons import deck
from posenc.teaching.lessons.card import COMPANIES, DECK, KINDS, TOPICS
from posenc.teaching.lessons.facts import LESSONS, Entry, Fact, of_section, of_stage, sections, teaching

try:
    from latex2mathml.converter import convert
except ModuleNotFoundError as error:
    raise MissingExtra("latex2mathml", "lab") from error

CARDS, PATHS, CLAIMS, HERO = "check", "lessons", "claims", "shift-both"
"""The addresses of three pages (cards, lessons, claims), and of the stage that the first page shows."""
BAR = ((PATHS, "Lessons"), (CLAIMS, "Claims"), (CARDS, "Check"))
"""The entries of the navigation bar other than the rooms."""
FIRST = "/static/first.js"
"""The script with the answers for the first page, so that its picture moves before the library is imported."""
ABOUT = "How a transformer knows where each word is: positional encodings to drag, click and break."
"""The description of pages other than rooms in link previews."""
STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Site:
    """The content that all pages of the lab share, and whether they are served or exported to a folder.

    Args:
        saved: whether pages contain their style, script and policy and need no server.
        answers_file: a function that returns the file with a stage's answers, or an empty string if a server
            computes the answers.
        stops: by stage and control, the values at which a slider stops, as strings; other sliders have all their
            values.
        docs: the address of the documentation, if known.
    """

    saved: bool = False
    answers_file: Callable[[Stage], str] = lambda stage: ""
    stops: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    policy: str = ""
    style: str = ""
    early: str = ""
    script: str = ""
    docs: str = ""

    def link(self, name: str) -> str:
        return f"{name or 'index'}.html" if self.saved else f"/{name}"


LIVE = Site()


def _rendered(template: str, site: Site, **given: object) -> str:
    shared: dict[str, object] = {
        "about": ABOUT,
        "aliases": ALIASES,
        "formula": formula,
        "thumbnail": thumbnail,
        "find": find,
        "of_stage": of_stage,
        "sections": sections,
        "place": place,
        "of_section": of_section,
        "teaching": teaching,
        "rooms": ROOMS,
        "bar": BAR,
        "tones": tones(),
        "icon": base64.b64encode((STATIC / "icon.svg").read_bytes()).decode(),
    }
    return templates("posenc.teaching.lab").get_template(template).render(shared | given, site=site)


def home(site: Site = LIVE) -> str:
    """Return the first page, with a rotation to drag and a list of the rooms and their questions."""
    moving = site if site.saved else replace(site, answers_file=lambda stage: FIRST)
    return _rendered("home.html", moving, title="Rooms", current="", hero=find(HERO))


def cards(site: Site = LIVE) -> str:
    """Return the page of quiz cards; with a server, a script requests the numbers that need the library."""
    computed = {card["name"]: card for card in deck.cards()} if site.saved else {}
    filters = [
        ("kind", "kind", [*KINDS.items(), ("interview", "Interview")]),
        ("topic", "topic", list(TOPICS.items())),
        ("stars", "difficulty", [(str(n), "★" * n) for n in (1, 2, 3)]),
        ("lesson", "lesson", [(str(n), lesson.title) for n, lesson in enumerate(LESSONS)]),
        ("company", "company", [(name, name) for name in COMPANIES]),
    ]
    return _rendered(
        "cards.html",
        site,
        title="Check yourself",
        current=CARDS,
        filters=filters,
        deck=DECK,
        kinds=KINDS,
        topics=TOPICS,
        computed=computed,
    )


def paths(site: Site = LIVE) -> str:
    """Return the page of lessons, which lists the stages, cards and notes for every section."""
    return _rendered("lessons.html", site, title="Lessons", current=PATHS, lessons=LESSONS, done=_to_do)


def claims(site: Site = LIVE) -> str:
    """Return the page of claims, whose verdicts the reader guesses.

    The page shows stored results, so that it does not need the library.
    """
    stored = json.loads((files("posenc.teaching.claims") / "kept.json").read_text(encoding="utf-8"))
    topics = dict.fromkeys(claim["topic"] for claim in stored.values())
    filters = [
        ("topic", "topic", [(topic, topic.lower()) for topic in topics]),
        ("lesson", "lesson", [(str(number), lesson.title) for number, lesson in enumerate(LESSONS)]),
    ]
    return _rendered("claims.html", site, title="Claims", current=CLAIMS, claims=stored, filters=filters)


def _to_do(steps: Sequence[tuple[Fact, Entry]]) -> str:
    """Return the names of a section's stages and cards, so that the browser can count those already seen; the name
    of a card begins with "?".
    """
    stages = [name.partition("/")[2] for _, entry in steps for name in entry.stages]
    cards = [f"?{card.name}" for _, entry in steps for card in entry.cards]
    return " ".join(dict.fromkeys([*stages, *cards]))


def room_page(room: Room, texts: Mapping[str, str], site: Site = LIVE) -> str:
    """Return the page of a room whose controls have the values in ``texts``; invalid values give an error message
    instead of the picture.
    """
    onward = (*((each.name, each.short) for each in ROOMS), (CARDS, "Check yourself"))
    after = onward[ORDER.index(room.name) + 1]
    return _rendered(
        "room.html",
        site,
        title=room.title,
        about=room.words,
        current=room.name,
        room=room,
        stages=room.stages,
        texts=texts,
        after=after,
    )


@lru_cache
def formula(lines: tuple[tuple[str, str], ...]) -> str:
    """Return the formulas of a room as MathML, each with a text alternative."""
    formulas = (
        convert(tex, display="block").replace("<math ", f'<math alttext="{words}" ', 1) for words, tex in lines
    )
    return f'<div class="formula">{"".join(formulas)}</div>'


def thumbnail(name: str) -> str:
    """Return the small picture of a room's first stage, or of a suggested state."""
    return (STATIC / "thumbnails" / f"{name}.svg").read_text("utf-8")
