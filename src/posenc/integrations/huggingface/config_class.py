"""The config classes of the installed transformers: their keys, and the objects that they build from configs."""

import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from typing import Any

from posenc.errors import InvalidArgument, MissingExtra
from posenc.integrations.huggingface.scaling import SPELLINGS

TRIED = "5.24.0"
"""The newest version of transformers whose model types were all read and measured."""


@cache
def class_version() -> str:
    """Return the version of the installed transformers."""
    return version("transformers")


def untried() -> str:
    """Return a note if the installed transformers is newer than the last tested version, else an empty string."""
    installed, tried = (
        tuple(int(part) for part in re.findall(r"\d+", text)[:2]) for text in (class_version(), TRIED)
    )
    return (
        f"transformers {class_version()} is newer than {TRIED}, the last tested version; measure the model"
        if installed > tried
        else ""
    )


class RefusedByClass(InvalidArgument):
    """A config class of transformers refuses a config."""


@cache
def config_class(model_type: str) -> Any:
    """Return the config class of a model type.

    Raises:
        MissingExtra: transformers is not installed.
        InvalidArgument: transformers has no such model type.
    """
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError as error:
        raise MissingExtra("transformers", "hf") from error
    try:
        return CONFIG_MAPPING[model_type]
    except KeyError:
        raise InvalidArgument(
            f"transformers {class_version()} has no model_type {model_type!r}; install a newer version"
        ) from None


@cache
def class_keys(model_type: str) -> frozenset[str]:
    """Return the keys of a model type's config class."""
    return frozenset(field.name for field in fields(config_class(model_type)))


def class_form(config: Mapping[str, Any]) -> Any:
    """Return the config object that transformers' class builds from the config of a language model.

    Raises:
        MissingExtra, InvalidArgument: see ``config_class``.
        RefusedByClass: the class refuses the config.
    """
    try:
        given = json.loads(json.dumps(config), object_hook=_current)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the config has a value that JSON cannot represent: {error}; correct it") from error
    kind = config_class(given.get("model_type"))
    with refusals(kind):
        return kind.from_dict(given)


@contextmanager
def refusals(kind: type) -> Iterator[None]:
    """Raise ``RefusedByClass`` for whatever a config class raises. For odd values, this may be any exception."""
    try:
        with quiet():
            yield
    except Exception as error:
        sentence = " ".join(f"{type(error).__name__}: {error}".split())
        raise RefusedByClass(
            f"{kind.__name__} of transformers {class_version()} refuses the config: {sentence}; correct it"
        ) from error


def _current(value: dict[str, Any]) -> Any:
    """Return the number that transformers writes as ``{"__float__": "Infinity"}``, and a rope dictionary with an
    older name of its type, which Phi-3's class refuses, under the present name; other dicts unchanged.
    """
    if value.keys() == {"__float__"}:
        return float(value["__float__"])
    return {**value, "type": SPELLINGS[value["type"]]} if str(value.get("type")) in SPELLINGS else value


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' messages about values that posenc itself refuses or that do not concern positions."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
