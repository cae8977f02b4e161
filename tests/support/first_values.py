"""The first default value of every setting, which ids omit. As a script, this module adds new settings.

A removed setting stays in the file: if it returned with a new default, an old id would stand for a different run.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from inspect import Parameter
from pathlib import Path
from typing import Any

from posenc.arguments import parameters_of
from posenc.encodings.axes import MAPS
from posenc.encodings.catalogue import CATALOGUE, Entry
from posenc.encodings.encoding import Encoding
from posenc.encodings.foreign import load
from posenc.names import REMAPS
from posenc.scaling.registry import SCALINGS
from posenc.workbench.extension.scoring import Scoring
from posenc.workbench.run.plan import NUMERICS, Plan

FILE = Path(__file__).parent.parent / "workbench" / "first_values.json"


def now() -> dict[str, str]:
    """Return every default value that ids omit, by ``Plan.setting`` or ``encoding.setting``."""
    defaults = {
        f"{kind.__name__}.{field.name}": field.default
        for kind in (Plan, Scoring)
        for field in fields(kind)
        if field.default is not MISSING and field.name != "numerics"
    }
    remaps = {name: Entry(load(path, Encoding, "an encoding")) for name, path in REMAPS.items()}
    for name, entry in {**CATALOGUE, **remaps}.items():
        defaults |= _of(name, entry.make, entry.fresh)
    for name, make in {**SCALINGS, **MAPS}.items():
        defaults |= _of(name, make)
    return {name: repr(value) for name, value in sorted(defaults.items())}


def _of(name: str, make: Callable[..., Any], fresh: Mapping[str, Any] | None = None) -> dict[str, Any]:
    known = {key: parameter.default for key, parameter in parameters_of(make).items()} | dict(fresh or {})
    return {f"{name}.{key}": value for key, value in known.items() if value is not Parameter.empty}


def changed(kept: Mapping[str, Any], values: Mapping[str, str], numerics: int) -> list[str]:
    """Return the settings whose default has changed since they were added, under the same version of numerics."""
    first = kept["first"] if kept["numerics"] == numerics else {}
    return [name for name, value in values.items() if name in first and first[name] != value]


if __name__ == "__main__":
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"numerics": NUMERICS, "first": {}}
    if wrong := changed(kept, now(), NUMERICS):
        raise SystemExit(f"{', '.join(wrong)}: raise NUMERICS first")
    first = {**(kept["first"] if kept["numerics"] == NUMERICS else {}), **now()}
    FILE.write_text(json.dumps({"numerics": NUMERICS, "first": dict(sorted(first.items()))}, indent=0) + "\n")
