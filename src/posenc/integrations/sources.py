"""Position tables of what people name: a file, overrides of one, or what a program makes of either.

model/, config.json, model.gguf     what the file says
vllm@0.33.0:config.json             what this release computes from it; vllm:config.json is the newest one asked
overrides.json                      keys without a model_type, laid over the config that it is compared with
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from posenc.arguments import one_of
from posenc.encodings.text import parse
from posenc.errors import UnknownName
from posenc.integrations.huggingface.config import contents, read
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.position_table import PositionTable, of
from posenc.integrations.programs import NAMES, llama_cpp
from posenc.scaling import LengthScaling, Scaling
from posenc.scaling.registry import SCALINGS, make

SPELT = {
    "llama.cpp": "llama_cpp",
    "mlx-lm": "mlx",
    "llama-cpp": "llama_cpp",
}
"""Names of programs that are no name of a module."""


def program_of(text: str) -> tuple[Any, str | None]:
    """The module and the version of ``vllm@0.33.0`` or ``vllm``.

    Raises:
        UnknownName: no such program, with the nearest that there is.
    """
    name, _, version = text.partition("@")
    name = SPELT.get(name, name)
    if name not in NAMES:
        raise UnknownName("program", name, NAMES)
    return import_module(f"posenc.integrations.programs.{name}"), version or None


def scaling_of(text: str, length: int) -> Scaling | LengthScaling:
    """The scaling of ``yarn(4)`` or ``yarn(4, 8192, beta_fast=16)``; without an original length, of this one.

    Raises:
        UnknownName, InvalidArgument: no scaling or field of that name, or a value out of range.
    """
    stated = parse(text)
    one_of("scaling", stated.name, SCALINGS)
    given, by_name = stated.arguments
    names = [field.name for field in fields(SCALINGS[stated.name])]  # type: ignore[arg-type]
    known = {"original_length": length} if "original_length" in names[len(given) :] else {}
    return make(stated.name, *given, **{**known, **by_name})


def table(source: str, beside: str | None = None, as_type: str | None = None) -> PositionTable:
    """The table of one source.

    Args:
        source: as above.
        beside: the source that it is compared with, over whose config overrides are laid.
        as_type: the family by whose rules a config is read, as in ``huggingface.read``; programs and GGUF files
            have rules of their own.

    Raises:
        UnknownName, InvalidArgument: a program, a version or a file that is not there, or is not read.
    """
    program, path = _split(source)
    module, version = (None, None) if program is None else program_of(program)
    if path.endswith(".gguf"):
        return llama_cpp.read(path) if module is None else module.read(path, version)
    config = contents(Path(path))
    if beside and isinstance(config, Mapping) and "model_type" not in config:
        config = laid_over(contents(Path(_split(beside)[1])), config)
    return of(read(config, as_type=as_type)) if module is None else module.read(config, version)


def laid_over(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A config with these keys in place of its own, part by part; a key that is null goes away.

    A rope dictionary replaces both spellings of the one that was there, with the base beside it.
    """
    gone = {*BOTH_FORMS, "rope_theta"} if set(BOTH_FORMS) & set(overrides) else set()
    result = {key: value for key, value in config.items() if key not in gone}
    for key, value in overrides.items():
        inside = isinstance(value, Mapping) and isinstance(config.get(key), Mapping) and key not in BOTH_FORMS
        result[key] = laid_over(config[key], value) if inside else value
    for key in set(BOTH_FORMS) & set(overrides):
        entry = result[key] or {}
        result[key] = {name: value for name, value in entry.items() if value is not None}
    return {key: value for key, value in result.items() if value is not None}


def _split(source: str) -> tuple[str | None, str]:
    """The program and the path of a source."""
    program, colon, path = source.partition(":")
    known = program.partition("@")[0] in (*NAMES, *SPELT) or "@" in program
    return (program, path) if colon and known else (None, source)
