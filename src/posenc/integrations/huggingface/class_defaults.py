"""The form that the config classes of transformers give a config, and a table of the keys that they know.

The table is made by ``tools/class_defaults.py`` from one transformers, whose version it says; ``read`` takes no
value from it.
"""

import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from posenc.errors import InvalidArgument, MissingExtra


@cache
def class_defaults() -> Mapping[str, Mapping[str, Any]]:
    """Per model_type the keys that its config class has, each with the value it takes by itself.

    Under ``"transformers"`` is the version that it was taken from.
    """
    defaults: Mapping[str, Mapping[str, Any]] = json.loads(
        (files(__package__) / "class_defaults.json").read_text("utf-8")
    )
    return defaults


@cache
def class_version() -> str:
    """The version of transformers whose classes are asked: the installed one's, or else the table's."""
    try:
        return version("transformers")
    except PackageNotFoundError:
        return str(class_defaults()["transformers"]["version"])


def untried() -> str:
    """That the installed transformers is newer than the one tried, in a sentence; empty where it is not."""
    installed, tried = class_version(), class_defaults()["transformers"]["version"]
    numbers = [tuple(int(part) for part in re.findall(r"\d+", one)[:2]) for one in (installed, tried)]
    if numbers[0] <= numbers[1]:
        return ""
    return f"transformers {installed} is newer than {tried}, the last that was tried: measure what is read of it"


class RefusedByClass(InvalidArgument):
    """A config class of transformers does not take the config."""

    def __init__(self, kind: type, error: Exception) -> None:
        self.kind, sentence = kind, " ".join(f"{type(error).__name__}: {error}".split())
        super().__init__(
            f"{kind.__name__} of transformers {class_version()} refuses the config: {sentence}; correct it"
        )


def class_form(config: Mapping[str, Any]) -> Any:
    """What the installed transformers' class makes of the JSON of a language model, not to be changed.

    Raises:
        MissingExtra: transformers is not installed.
        InvalidArgument: it has no such type.
        RefusedByClass: the class does not take the config.
    """
    try:
        given = json.dumps(config)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the config holds what no JSON can: {error}; correct it") from error
    return _class_form(given)


@lru_cache(256)
def _class_form(config: str) -> Any:
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError as error:
        raise MissingExtra("transformers", "hf") from error
    given = json.loads(config, object_hook=_number)
    try:
        kind = CONFIG_MAPPING[given["model_type"]]
    except KeyError:
        raise InvalidArgument(
            f"transformers {class_version()} has no model_type {given['model_type']!r}; install a newer one"
        ) from None
    try:
        with _quiet():
            return kind.from_dict(given)
    except Exception as error:  # whatever a class raises for odd values
        raise RefusedByClass(kind, error) from error


def _number(value: dict[str, Any]) -> Any:
    """The number of ``{"__float__": "Infinity"}``, as transformers writes what JSON lacks; others as they are."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what transformers says about values that are refused here, or have nothing to do with positions."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
