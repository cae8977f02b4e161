"""Runs the lab and a browser; ``python tests/support/photographs.py --docs docs/assets`` makes the screenshots in
the documentation. ``tools/contact_sheet.py`` makes screenshots of every stage.
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

SHOWN = ("order", "clock", "rotation")
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The programs to look for. The first one has no windows, and takes half the processor time of the others."""
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
    """Run the lab on a free port of this machine inside the block, and yield its address."""
    import uvicorn

    from posenc.teaching.lab.server import settings

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
    """This machine's Chromium, controlled by Playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise MissingExtra("playwright", "dev") from error
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise StudyError("no Chromium found; type: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(CHROMIUM))
        try:
            yield browser
        finally:
            browser.close()


def saved(page: Any, button: Any) -> Any:
    """Return the download that a click on this button starts."""
    with page.expect_download() as download:
        button.click()
    return download.value


def settle(page: Any) -> None:
    """Wait until the current stage shows the result for the values of its controls."""
    page.locator(".stage.current:not([data-answered])").first.wait_for(state="detached")
    page.evaluate("() => document.fonts.ready")


def resize(page: Any, width: int, height: int) -> None:
    """Give the window this size, and wait until the page is laid out anew."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(60)


def windows(folder: Path) -> list[Path]:
    """Save screenshots of the first view of every room that the documentation shows."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with serving() as address, chromium() as browser:
        page = browser.new_page(color_scheme="light", viewport={"width": 1280, "height": 800})
        for name in SHOWN:
            page.goto(f"{address}/{name}")
            settle(page)
            reveal(page)
            page.wait_for_timeout(350)
            made.append(folder / f"lab-{name}.png")
            page.screenshot(path=str(made[-1]))
    return made


def reveal(page: Any) -> bool:
    """Answer the question of the stage, and return whether the stage has a question."""
    asked = page.locator(".stage.current.guessing .guess button")
    if asks := bool(asked.count()):
        asked.first.click()
        settle(page)
    return asks


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--docs":
        sys.exit("usage: photographs.py --docs FOLDER")
    print(*windows(Path(sys.argv[2])), sep="\n")
