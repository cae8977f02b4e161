"""The defaults of every family's config class in transformers, as data, for configs that leave keys out.

Made by ``tools/class_defaults.py`` from the installed transformers. Bases and trained lengths are left out on
purpose: a model was trained with its own, and to guess them is to be wrong in silence.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def class_defaults() -> Mapping[str, Mapping[str, Any]]:
    """Per model_type the keys that its config class has, each with the value it takes by itself."""
    defaults: Mapping[str, Mapping[str, Any]] = json.loads(
        (files(__package__) / "class_defaults.json").read_text("utf-8")
    )
    return defaults
