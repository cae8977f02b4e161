"""Custom classes, which are named as ``module:Class`` and imported when an encoding is built."""

import importlib
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument


def load(name: str, base: type, public: str) -> Any:
    """Import the module of ``module:Class`` and return the class. The class must derive from ``base``. ``public``
    is the name of ``base`` in error messages.

    Raises:
        InvalidArgument: the module or the class does not exist, or the class does not derive from ``base``.
            Errors from the module itself are raised unchanged.
    """
    module, _, attribute = name.partition(":")
    importlib.invalidate_caches()
    try:
        custom = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise no_module(name) from error
    except AttributeError as error:
        raise InvalidArgument(
            f"module {module!r} has no class {attribute!r}; correct the name, which has the form "
            f"my_module:My{base.__name__}"
        ) from error
    if not (isinstance(custom, type) and issubclass(custom, base)):
        raise InvalidArgument(f"{name} is not a {public}; derive the class from {public}")
    return custom


def classes_in(module: str) -> list[str]:
    """Return ``module:Class`` for each subclass of ``Encoding`` in ``module.py`` in the current folder. The file is
    read but not imported. The list is empty if the file does not exist.
    """
    with suppress(OSError):  # no such file, or a name that is too long for one
        classes = re.compile(r"^class (\w+)\(.*Encoding\)", re.MULTILINE)
        return [f"{module}:{name}" for name in classes.findall(Path(f"{module}.py").read_text("utf-8", "replace"))]
    return []


def no_module(name: str) -> InvalidArgument:
    """Return the error for a ``module:Class`` whose module is not found."""
    module = name.partition(":")[0]
    return InvalidArgument(f"{name!r}: module {module!r} was not found; run in the folder that contains it")
