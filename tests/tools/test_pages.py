"""Pages and files of the lab that are generated are those that the library makes today."""

import base64
import gzip
import re
from pathlib import Path

import pytest
from tools.pages import PAGES, WRITER, lab


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), WRITER


@pytest.mark.long
def test_what_ships_beside_the_labs_pages_is_what_the_library_says() -> None:
    for path, text in lab.files().items():
        assert unpacked(path.read_text(encoding="utf-8")) == unpacked(text), f"{path.name}: {WRITER}"


def unpacked(text: str) -> str:
    """What a script holds packed, as every Python's gzip writes other bytes; any other text as it is."""
    packed = re.search(r'"([A-Za-z0-9+/=]{100,})"', text)
    return gzip.decompress(base64.b64decode(packed[1])).decode() if packed else text
