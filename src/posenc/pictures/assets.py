"""The assets of a web page with views: the script, style and colours of the browser renderer."""

import posixpath
import re
from pathlib import Path

from posenc.pictures.colours import stylesheet

STATIC = Path(__file__).parent / "static"


def style(own: Path) -> str:
    """Return the style sheet of a page: colours, panels, and the page's own rules."""
    return stylesheet() + (STATIC / "panels.css").read_text("utf-8") + own.read_text("utf-8")


def bundle(entry: Path) -> str:
    """Return the modules of a page as one classic script, without imports, exports or comments.

    Import paths are resolved like URLs, first in the folder of ``entry`` and then in ``STATIC``.
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
