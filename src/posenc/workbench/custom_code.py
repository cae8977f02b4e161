"""The source files of custom classes, ``module:Class``: hashed and listed without importing, named in errors."""

import hashlib
import importlib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from modulefinder import ModuleFinder
from pathlib import Path

from posenc.encodings.foreign import no_module
from posenc.errors import PosencError, StudyError


@contextmanager
def one_sentence(what: str, names: Iterable[str]) -> Iterator[None]:
    """Turn any error of these classes into one sentence: ``what`` cannot be built, why, and at which line."""
    try:
        yield
    except PosencError:
        raise
    except Exception as error:
        files = modules(names)
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) in files]
        line = f", line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise StudyError(f"{what} cannot be made ({message}{line})") from error


def source_hash(names: Iterable[str]) -> str:
    """A hash of the sources of these classes.

    For a package these are all its files; for a module, its file and the modules beside it that it imports.
    Packages installed elsewhere do not count.
    """
    digest = hashlib.sha256()
    for name in names:
        for path in _sources(name):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def modules(names: Iterable[str]) -> tuple[Path, ...]:
    """The files and packages that another process needs to import these classes.

    For a module these are its file and the modules beside it that it imports.
    """
    paths: list[Path] = []
    for name in names:
        top = _origin(name)
        paths += (top,) if top.is_dir() else _sources(name)
    return tuple(dict.fromkeys(paths))


def _sources(name: str) -> list[Path]:
    """The files of the package, or of the module and, recursively, of the modules beside it that it imports."""
    origin = _origin(name)
    if origin.is_dir():
        return sorted(origin.rglob("*.py"))
    finder = ModuleFinder([str(origin.parent)])
    with suppress(SyntaxError, ValueError):  # a file that is not Python
        finder.run_script(str(origin))
    files = [getattr(module, "__file__", None) for module in finder.modules.values()]
    neighbours = {Path(file) for file in files if file}
    return [origin, *sorted(neighbours - {origin})]


def _origin(name: str) -> Path:
    """The file of the module, or the folder of the package that it lies in; nothing is imported."""
    top = name.partition(":")[0].partition(".")[0]
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(top)
    where = None if spec is None else next(iter(spec.submodule_search_locations or ()), spec.origin)
    if where is None:
        raise no_module(name)
    return Path(where).resolve()
