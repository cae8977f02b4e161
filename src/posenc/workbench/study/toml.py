"""A study as the TOML file that makes it again."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from posenc.workbench.study.study import Study


def as_toml(study: Study) -> str:
    """Every setting that is said, in the order of its declaration; tables come last, as TOML wants them."""
    said = {field.name: getattr(study, field.name) for field in fields(study)}
    plain = [f"{name} = {_value(value)}" for name, value in said.items() if _single(value)]
    tables = [(name, value) for name, value in said.items() if isinstance(value, dict) and value]
    for name, table in tables:
        plain += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(plain) + "\n"


def _single(value: Any) -> bool:
    return value is not None and not isinstance(value, dict)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    text = str(value.resolve() if isinstance(value, Path) else value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
