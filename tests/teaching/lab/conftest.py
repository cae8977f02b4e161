"""One lab and one browser for all tests of the page; a request off this machine fails the test that made it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from posenc.teaching.lab import results
from support.photographs import serving, settle
from support.studies import TINY, ran


class Visitor:
    """A page of the lab, with what went wrong in it."""

    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        self.address = address
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | settings)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("request", self._note_request)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("console", self._note_console)

    def _note_request(self, request: Any) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            self.complaints.append(f"left the machine: {request.url}")

    def _note_console(self, message: Any) -> None:
        # A refused request is also reported by the browser; the page shows it itself, and tests look there.
        if message.type == "error" and "400 (Bad Request)" not in message.text:
            self.complaints.append(f"console: {message.text}")

    def open(self, path: str, stage: str = "") -> Any:
        """Go there, to a stage of it, and wait until it has painted."""
        self.page.goto(f"{self.address}{path}{stage and f'#{stage}'}")
        self.page.keyboard.press("Shift")  # the first page plays until it is touched
        settle(self.page)
        return self.page

    def turn(self, stage: str) -> None:
        """Go on to another stage of the room."""
        self.page.evaluate("(stage) => { location.hash = stage; }", stage)
        self.page.locator(f"#{stage}.current").wait_for()
        settle(self.page)

    def answered(self, stage: str, query: str) -> None:
        """Wait until a stage has painted the answer to this query of its own parameters, and no refusal."""
        address = f"/api/{stage}" + (f"?{query}" if query else "")
        self.page.locator(f'#{stage}[data-answered="{address}"]').wait_for()
        assert self.page.locator(f"#{stage} .error").inner_text() == "", (stage, query)

    def write(self, field: str, text: str) -> None:
        """Type a text into the field with this selector."""
        self.page.locator(field).fill(text)
        self.page.locator(field).press("Enter")

    def readouts(self, stage: str) -> dict[str, str]:
        """Names and texts of a stage's readouts."""
        entries = self.page.locator(f"#{stage} .readouts > div").all()
        return {e.locator("dt").inner_text(): e.locator("dd").inner_text() for e in entries}


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A study of three tasks that a second trains, shown by the lab while the tests run."""
    folder = tmp_path_factory.mktemp("study")
    tiny = replace(
        TINY, tasks=("ordering", "needle", "language"), encodings=("nope", "rotary", "learned(past_end=clamp)")
    )
    ran(tiny, folder)
    results.use(folder)
    yield folder
    results.use(results.DEFAULT)


@pytest.fixture(scope="session")
def lab(study: Path) -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture
def visitor(lab: str, browser: Any, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A fresh visitor; what a test says with ``indirect`` becomes settings of the browser's context."""
    yield from _watched(Visitor(browser, lab, **getattr(request, "param", {})))


@pytest.fixture
def offline(browser: Any) -> Iterator[Visitor]:
    """A visitor of saved pages, who has no network and sees no motion."""
    yield from _watched(Visitor(browser, "", offline=True, reduced_motion="reduce"))


def _watched(visitor: Visitor) -> Iterator[Visitor]:
    """The visitor, who must have nothing to complain of in the end."""
    yield visitor
    visitor.context.close()
    assert visitor.complaints == []
