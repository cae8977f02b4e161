"""Finds, lists and hashes the source files of custom classes (``module:Class``) without importing them."""

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
    """Replace an exception in the code of these classes with a ``StudyError`` of one sentence.

    The sentence says that ``what`` cannot be created, and gives the reason and the line of code.
    """
    try:
        yield
    except PosencError:
        raise
    except Exception as error:
        raise StudyError(f"{what} cannot be created ({located(error, modules(names))})") from error


def located(error: BaseException, files: Iterable[Path]) -> str:
    """Return an error's class and message and, if code in these files or packages caused it, the line of code."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if any(Path(frame.filename).is_relative_to(file) for file in files)
    ]
    line = f", line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split()) + line


def source_hash(names: Iterable[str]) -> str:
    """Return a hash of the source files of these classes.

    For a package, all files are hashed. For a module, its file and the files of the modules that it imports from
    the same folder are hashed. Packages that are installed elsewhere are not hashed.
    """
    files = (path.read_bytes() for name in names for path in _sources(_origin(name)))
    return hashlib.sha256(b"".join(files)).hexdigest()[:16]


def modules(names: Iterable[str]) -> tuple[Path, ...]:
    """Return the files and packages that another process needs to import these classes.

    A module needs its own file and the files of the modules that it imports from the same folder.
    """
    paths: list[Path] = []
    for origin in map(_origin, names):
        paths += [origin] if origin.is_dir() else _sources(origin)
    return tuple(dict.fromkeys(paths))


def _sources(origin: Path) -> list[Path]:
    """Return all files of a package, or a module's file and those of the modules that it imports from the same
    folder.
    """
    if origin.is_dir():
        return sorted(origin.rglob("*.py"))
    finder = ModuleFinder([str(origin.parent)])
    with suppress(SyntaxError, ValueError):  # a file that is not Python
        finder.run_script(str(origin))
    neighbours = {Path(file) for module in finder.modules.values() if (file := getattr(module, "__file__", None))}
    return [origin, *sorted(neighbours - {origin})]


def _origin(name: str) -> Path:
    """Return the file of the module, or the folder of its package, without importing anything."""
    top = name.partition(":")[0].partition(".")[0]
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(top)
    where = None if spec is None else next(iter(spec.submodule_search_locations or ()), spec.origin)
    if where is None:
        raise no_module(name)
    return Path(where).resolve()
