"""What a page needs to paint views: the painters' script and style, and the colours that they share."""

import posixpath
import re
from pathlib import Path

from posenc.pictures.colours import stylesheet

STATIC = Path(__file__).parent / "static"


def style(own: Path) -> str:
    """The sheet of a page that holds its style: colours, panels, and what is the page's own."""
    return stylesheet() + (STATIC / "panels.css").read_text("utf-8") + own.read_text("utf-8")


def bundle(entry: Path) -> str:
    """A page's modules as one classic script: the same source without imports, exports and comments.

    A module lies beside ``entry`` or among the painters, at the path that it is imported by.
    """
    texts: dict[str, str] = {}

    def take(path: str) -> None:
        if path in texts:
            return
        source = next(f for f in (entry.parent / path, STATIC / path) if f.is_file()).read_text("utf-8")
        for asked in re.findall(r'^import .* from "(.*)";$', source, re.M):
            take(posixpath.normpath(posixpath.join(posixpath.dirname(path), asked)))
        texts[path] = re.sub(r"^( *//.*\n|import .*\n|export )", "", source, flags=re.M)

    take(entry.name)
    return '(() => {\n"use strict";\n' + "\n".join(texts.values()) + "})();\n"
