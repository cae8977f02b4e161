"""Writes ``class_defaults.json``: what transformers takes where a config says nothing, of every family read.

Run it after adding a family, or with another transformers; a test says when it is due.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.schema import KEYS, RARE

GUESSED = {"rope_theta", "rotary_emb_base", "partial_rotary_factor", "rotary_pct", "rope_parameters", "layer_types"}
"""Never taken from a class: what a model was trained with, and what follows from the rest."""
TABLE = Path(__file__).parents[1] / "src" / "posenc" / "integrations" / "huggingface" / "class_defaults.json"


def defaults(model_type: str) -> dict[str, Any]:
    """The keys of a family's config class, by name, with the values that it takes by itself."""
    kind, family = CONFIG_MAPPING[model_type], FAMILIES[model_type]
    keys = {**KEYS, **{key: value for key, value in RARE.items() if key in family.keys}}
    fields = {field.name: field.default for field in dataclasses.fields(kind) if field.name in keys}
    found = {
        key: value
        for key, value in fields.items()
        if key not in GUESSED | {family.length, family.base} and value is not dataclasses.MISSING
    }
    for key in ("sliding_window", "cross_attention_layers"):  # which some classes fill in themselves
        if found.get(key, 0) is None:
            found[key] = getattr(kind(), key, None)
    rope = kind().to_dict().get("rope_parameters") if family.kind == "rotary" else None
    return found | ({"rope_parameters": _untrained(rope)} if rope and _scaled(rope) else {})


def _scaled(rope: dict[str, Any]) -> bool:
    """Whether it says more than a base and a share."""
    if "rope_type" in rope:
        return bool(rope["rope_type"] != "default")
    return any(entry is None or set(entry) - {"rope_type", "rope_theta"} for entry in rope.values())


def _untrained(rope: dict[str, Any]) -> dict[str, Any]:
    """Without the bases."""
    return {
        key: _untrained(value) if isinstance(value, dict) else value
        for key, value in rope.items()
        if key != "rope_theta"
    }


def table() -> str:
    """A line per family, by name: tests that add and remove families leave them in another order."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(defaults(name), sort_keys=True)}"
        for name in sorted(FAMILIES)
        if name in CONFIG_MAPPING
    ]
    lines.insert(0, f'"transformers": {json.dumps({"version": transformers.__version__})}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    TABLE.write_text(table(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
