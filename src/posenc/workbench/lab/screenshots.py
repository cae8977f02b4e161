"""Photographs every room: ``python -m posenc.workbench.lab.screenshots DIR`` (needs playwright and a Chromium).

``… screenshots --docs docs/assets`` makes the pictures of the documentation. Results come from ``./study``.
"""

import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.lab.rooms import ROOMS

WIDTHS = (360, 1024, 1920)
SHOWN = ("order", "clock", "rotation")
CHROMIUM = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def serving() -> Iterator[str]:
    """The lab on a free port of this machine, for as long as the block runs; yields its address."""
    import uvicorn

    from posenc.workbench.lab.server import settings

    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = uvicorn.Server(settings())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


@contextmanager
def chromium() -> Iterator[Any]:
    """A Chromium of this machine, driven by playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise MissingExtra("playwright", "dev") from error
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        raise StudyError("no Chromium found; type: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(CHROMIUM))
        try:
            yield browser
        finally:
            browser.close()


def settle(page: Any) -> None:
    """Wake every stage and wait until each has painted what its controls say."""
    for stage in page.locator(".stage").all():
        stage.scroll_into_view_if_needed()
    page.locator(".stage:not([data-answered])").first.wait_for(state="detached")
    page.evaluate("() => window.scrollTo(0, 0)")


def windows(folder: Path) -> list[Path]:
    """What a visitor first sees of the rooms that the documentation shows."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with serving() as address, chromium() as browser:
        page = browser.new_page(color_scheme="light", viewport={"width": 1280, "height": 1000})
        for name in SHOWN:
            page.goto(f"{address}/{name}")
            settle(page)
            page.wait_for_timeout(350)
            made.append(folder / f"lab-{name}.png")
            page.screenshot(path=str(made[-1]))
    return made


def photograph(folder: Path, only: str = "") -> list[Path]:
    """A picture of every room in light and dark at three widths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with serving() as address, chromium() as browser:
        for theme in ("light", "dark"):
            for width in WIDTHS:
                page = browser.new_page(color_scheme=theme, viewport={"width": width, "height": 900})
                for name in ["", *(room.name for room in ROOMS)]:
                    if only and name != only:
                        continue
                    page.goto(f"{address}/{name}")
                    settle(page)
                    page.wait_for_timeout(350)  # what turns or slides has arrived
                    path = folder / f"{name or 'contents'}-{theme}-{width}.png"
                    page.screenshot(path=str(path), full_page=True)
                    made.append(path)
                page.close()
    return made


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--docs", where]:
            pictures = windows(Path(where))
        case [where]:
            pictures = photograph(Path(where))
        case [where, room]:
            pictures = photograph(Path(where), room)
        case _:
            sys.exit("usage: python -m posenc.workbench.lab.screenshots [--docs] FOLDER [ROOM]")
    print(*pictures, sep="\n")
