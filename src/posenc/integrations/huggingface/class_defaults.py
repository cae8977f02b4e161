"""What the config classes of transformers take where a config says nothing: asked there, or from a table of theirs.

The table is made by ``tools/class_defaults.py`` from one transformers, whose version it says. Bases and trained
lengths are left out on purpose: a model was trained with its own, and to guess them is to be wrong in silence.
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


def class_object(config: Mapping[str, Any]) -> Any:
    """What the class of the installed transformers makes of a config, not to be changed.

    None without transformers, without a class of this model_type, or where the class refuses the config.
    """
    try:
        return _class_object(json.dumps(config))
    except (TypeError, ValueError, RecursionError):  # no config that a file could say
        return None


@lru_cache(256)
def _class_object(config: str) -> Any:
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        given = json.loads(config)
        with _quiet():
            return CONFIG_MAPPING[given["model_type"]].from_dict(given)
    except Exception:  # no transformers, one that is too old, or whatever its class raises for odd values
        return None


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
