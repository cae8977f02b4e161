"""The first screen moves before the library is imported: what it shows is held beside the scripts."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.browser

PROGRAM = """
import sys, threading
from posenc.teaching.lab import server

def told():
    for _ in sys.stdin:
        print("torch" in sys.modules, flush=True)

threading.Thread(target=told, daemon=True).start()
server.PAUSE = 1e6  # nothing is imported in the background
server.serve("127.0.0.1", 0, open_page=False)
"""


@pytest.fixture
def cold() -> Iterator[subprocess.Popen[str]]:
    """A lab in a process of its own that says for every line of its input whether it has imported torch."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with started:
        yield started
        started.terminate()


@pytest.fixture
def lab(cold: subprocess.Popen[str]) -> str:
    return f"http://{urlsplit(cold.stdout.readline().split()[4]).netloc}"


def test_the_first_screen_paints_and_moves_with_torch_not_imported(
    cold: subprocess.Popen[str], visitor: Any
) -> None:
    page = visitor.open("/")
    assert visitor.readouts("shift-both")["score (rotated q·k)"] == "−1.100"
    page.get_by_role("button", name="position m of “dog”: on by one").click()
    visitor.answered("shift-both", "m=2")
    assert visitor.readouts("shift-both")["score (rotated q·k)"] == "−1.100"
    assert page.locator(".tip").all_text_contents() == ["dog 2", "man 4"]
    print(file=cold.stdin, flush=True)
    assert cold.stdout.readline() == "False\n"
