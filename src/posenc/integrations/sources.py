"""Position tables of sources. A source is a file, overrides for a file, or a program that reads a file.

model/, config.json, model.gguf     what the file states
vllm@0.33.0:config.json             what this release computes from the file; vllm:config.json: the newest release
measured:config.json                measurements of a small random model built from the file; what cannot be
                                    measured is taken from the file
overrides.json                      keys without a model_type, merged into the config of the other source
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import contents, read
from posenc.integrations.huggingface.measuring.measured import carried
from posenc.integrations.huggingface.measuring.probe import measure
from posenc.integrations.position_table import PositionTable, of
from posenc.integrations.program_names import MEASURED, NAMES, module_of, name_of, split
from posenc.integrations.programs import laid_over, llama_cpp


def program_of(text: str) -> tuple[Any, str]:
    """Return the module and the version of a program such as ``vllm@0.33.0`` or ``vLLM``, whose version is the
    newest.

    Raises:
        UnknownName: the version was not tested.
        InvalidArgument: the program is unknown. The message lists all programs instead of suggesting the one with
            the nearest name, because a different program has different results.
    """
    name, _, version = text.partition("@")
    if (module_name := module_of(name)) is None:
        raise InvalidArgument(
            f"program {name!r} is unknown; use one of {', '.join(map(name_of, NAMES))}; for another "
            "program, run posenc vectors and compare its output with the cos and sin of that program"
        )
    module = import_module(f"posenc.integrations.programs.{module_name}")
    return module, module.PROGRAM.releases.chosen(version)


def measured(path: str, as_type: str | None = None) -> PositionTable:
    """Return the position table of a config, corrected by measurements of a small random model built from it."""
    stated, measurement = of(read(path, as_type=as_type)), measure(path)
    small = of(read(measurement.config, as_type=as_type))
    return carried(measurement.table(small), small, stated)


def table(source: str, beside: str | None = None, as_type: str | None = None) -> PositionTable:
    """Return the position table of a source.

    Args:
        source: a source, in one of the forms that this module's docstring lists.
        beside: the other source of a comparison. If ``source`` contains only overrides, they are merged into the
            config of this other source.
        as_type: the family whose rules apply to the config, as in ``huggingface.read``. It has no effect on
            programs and GGUF files, which follow their own rules.

    Raises:
        UnknownName, InvalidArgument: the program, version or file does not exist or cannot be read.
    """
    program, path = split(source)
    if program == MEASURED:
        return measured(path, as_type)
    module, version = (None, None) if program is None else program_of(program)
    if path.endswith(".gguf"):
        return llama_cpp.read(path) if module is None else module.read(path, version)
    config = contents(Path(path))
    if beside and isinstance(config, Mapping) and "model_type" not in config:
        keeps = module.PROGRAM.keeps(version) if module else ()
        config = laid_over(contents(Path(split(beside)[1])), config, *keeps)
    return of(read(config, as_type=as_type)) if module is None else module.read(config, version)
