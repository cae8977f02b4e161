"""posenc provides positional encodings for transformers. Submodules and torch are imported only when a public name
is first used.
"""

import ast
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"

_HOMES = {  # the table of public names, which editors and type checkers read too
    alias.name: statement.module
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
__all__ = list(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        from posenc.errors import no_attribute

        raise no_attribute("posenc", name, _HOMES)
    home = _HOMES[name]
    value = import_module(f"posenc.{name}") if home == "posenc" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES})
