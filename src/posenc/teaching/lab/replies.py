"""What the lab answers to a path and a query: one pure function, which the server calls.

No path reaches the file system: pages, static files and stages are looked up by name in tables made at the start.
Everything refused is a short JSON ``{"error": …}`` with status 400 or 404.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posenc.errors import InvalidArgument, PosencError, UnknownName
from posenc.pictures import assets, colours
from posenc.teaching.lab import controls, page, rooms
from posenc.teaching.lessons import deck

if TYPE_CHECKING:
    from posenc.pictures.view import View

JSON, HTML = "application/json", "text/html; charset=utf-8"
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Reply:
    """A body, its type, its status, and the name under which a browser saves it."""

    body: bytes
    media: str = JSON
    status: int = 200
    filename: str = ""


class UnknownPath(PosencError):  # noqa: N818 - says what it is without the suffix
    """A path that names no page, file or stage."""


@lru_cache(maxsize=1)
def static() -> dict[str, Reply]:
    """Every static file by the path it is asked for at, read once."""
    return {
        f"/static/{path.relative_to(folder).as_posix()}": Reply(path.read_bytes(), MEDIA[path.suffix])
        for folder in (assets.STATIC, page.STATIC)
        for path in folder.rglob("*")
        if path.suffix in MEDIA
    }


def computes(path: str) -> bool:
    """Whether a path asks the library, and may take more than a moment."""
    return path.startswith(("/api", "/export"))


def reply(path: str, query: str = "") -> Reply:
    """The answer to ``path?query``; refusals become JSON with a status of their own."""
    try:
        return _route(path, query)
    except UnknownPath as error:
        return refused(str(error), 404)
    except PosencError as error:
        return refused(str(error), 400)


def refused(words: str, status: int) -> Reply:
    """Why there is no answer, as JSON."""
    return Reply(json.dumps({"error": words}).encode(), status=status)


PAGES: dict[str, Callable[[], Reply]] = {
    "/": lambda: Reply(page.home().encode(), HTML),
    "/colours.css": lambda: Reply(colours.stylesheet().encode(), MEDIA[".css"]),
    f"/{page.CARDS}": lambda: Reply(page.cards().encode(), HTML),
    f"/{page.CLAIMS}": lambda: Reply(page.claims().encode(), HTML),
    f"/{page.PATHS}": lambda: Reply(page.paths().encode(), HTML),
}


def _route(path: str, query: str) -> Reply:
    if path in static():
        return static()[path]
    if path in PAGES:
        return PAGES[path]()
    kind, _, rest = path.removeprefix("/").partition("/")
    texts = controls.pairs(query)
    if kind in ("api", "export"):
        return {"api": _api, "export": _export}[kind](rest, texts)
    if rest or kind not in rooms.BY_NAME:
        raise UnknownPath(f"{path[:60]} is no page of the lab; open / for the list of rooms")
    texts.pop("embed", None)
    return Reply(page.room_page(rooms.BY_NAME[kind], texts).encode(), HTML)


def _api(rest: str, texts: dict[str, str]) -> Reply:
    """``/api/<question>`` and its parts ``/table`` and ``/at?panel=&row=&column=``; ``/api/quiz``, the cards;
    ``/api/claim/<name>``, a claim that is run.
    """
    from posenc.pictures import wire
    from posenc.pictures.tables import tables, value_at

    if not rest:
        return _json({name: [c.name for c in stage.controls] for name, (_, stage) in rooms.stages().items()})
    name, _, part = rest.partition("/")
    if rest == "quiz":
        return _json(deck.cards())
    if name == "claim":
        return _json(_ran(part))
    if part == "at":
        place = [_index(texts, key) for key in ("panel", "row", "column")]
        return _json({"text": value_at(_answer(name, texts), *place)})
    shapes: dict[str, Callable[[View], Any]] = {"": wire.view, "table": tables}
    if part not in shapes:
        raise UnknownPath(f"/api/{name[:40]} has no part {part[:40]!r}; it has: at, table")
    return _json(shapes[part](_answer(name, texts)))


def _ran(name: str) -> dict[str, Any]:
    """A claim's verdict and the numbers that it stands on, computed now.

    Raises:
        InvalidArgument: the claim trains a model, which takes minutes.
    """
    from posenc.pictures.numbers import MINUS
    from posenc.teaching.claims.catalogue import CLAIMS
    from posenc.teaching.claims.claim import run

    if name not in CLAIMS:
        raise UnknownName("claim", name[:40], CLAIMS)
    if CLAIMS[name].slow:
        raise InvalidArgument(f"claim {name} trains a model; run it by: posenc verify --slow --only {name}")
    outcome = run(CLAIMS[name])
    words = f"{'Confirmed' if outcome.stands else 'Not confirmed'}: {CLAIMS[name].verdict}"
    numbers = [
        f"{found.name}: {f'{found.value:.6g}'.replace('-', MINUS)}, expected {found.expected}"
        for found in outcome.findings
    ]
    return {"verdict": words, "stands": outcome.stands, "findings": [*numbers, *filter(None, [outcome.error])]}


def _index(texts: dict[str, str], name: str) -> int:
    text = texts.pop(name, "0")
    if not text.isdecimal() or len(text) > 6:
        raise InvalidArgument(f"{name}={text[:40]!r} is no index; count from 0")
    return int(text)


def _json(content: Any) -> Reply:
    return Reply(json.dumps(content, allow_nan=False, ensure_ascii=False).encode())


def _export(rest: str, texts: dict[str, str]) -> Reply:
    """``/export/<question>.png``, ``.svg`` or ``.csv``: the stage's picture or its numbers."""
    from posenc.pictures.tables import as_csv

    name, _, kind = rest.rpartition(".")
    formats: dict[str, Callable[[View], bytes]] = {
        "csv": lambda answer: as_csv(answer).encode(),
        "png": lambda answer: _drawn(answer, "png"),
        "svg": lambda answer: _drawn(answer, "svg"),
    }
    if kind not in formats:
        raise UnknownPath(f"/export/{rest[:40]} has no known ending; use .png, .svg or .csv")
    return Reply(formats[kind](_answer(name, texts)), MEDIA[f".{kind}"], filename=f"posenc-{name}.{kind}")


def _drawn(answer: "View", kind: str) -> bytes:
    from posenc.pictures.draw import draw, rendered

    return rendered(draw(answer), kind)


def _answer(name: str, texts: Mapping[str, str]) -> "View":
    asked = rooms.find(name)
    return asked.answer(texts) if asked.fresh else _remembered(name, tuple(sorted(texts.items())))


@lru_cache(maxsize=16)
def _remembered(name: str, texts: tuple[tuple[str, str], ...]) -> "View":
    """The last few views: a picture, its table and the value under the pointer ask for the same one."""
    return rooms.find(name).answer(dict(texts))
