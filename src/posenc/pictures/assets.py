"""The parts of a web page with views: its templates, its style with all colours, and the browser's renderer as a
script."""

import posixpath
import re
from functools import cache
from pathlib import Path

from posenc.errors import MissingExtra
from posenc.pictures.colours import stylesheet

try:
    import jinja2
except ModuleNotFoundError as error:
    raise MissingExtra("jinja2", "plot") from error

STATIC = Path(__file__).parent / "static"


@cache
def templates(package: str) -> jinja2.Environment:
    """Return the templates of a package and of ``posenc.pictures``, which escape inserted text and raise an error
    for an unknown name. Each is compiled once.
    """
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in (package, "posenc.pictures")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
