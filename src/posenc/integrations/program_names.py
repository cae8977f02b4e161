"""Names of programs in all spellings, and sources that begin with such a name. No program is imported here."""

import pkgutil
from pathlib import Path

NAMES = tuple(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "programs")]))
"""The programs: the modules in the folder ``programs``."""
MEASURED = "measured"
"""In place of a program: measure a small random model that transformers builds from a config."""
SPELT = {
    "llama.cpp": "llama_cpp",
    "llamacpp": "llama_cpp",
    "mlx-lm": "mlx",
    "hf": "transformers",
    "llama-factory": "transformers",
    "llamafactory": "transformers",
}
"""Spellings of program names other than those of modules. A trainer maps to the program that it uses."""


def name_of(module: str) -> str:
    """The usual name of a program, by the name of its module. Every answer uses this name."""
    return next((text for text, named in SPELT.items() if named == module and module != "transformers"), module)


def module_of(name: str) -> str | None:
    """The module for a program's name, in any case and with - or _; None for an unknown program."""
    plain = name.lower().replace("_", "-")
    module = SPELT.get(plain, plain.replace("-", "_").replace(".", "_"))
    return module if module in NAMES else None


def split(source: str) -> tuple[str | None, str]:
    """The program with its version, ``measured`` or None, and the path of a source."""
    program, colon, path = source.partition(":")
    known = program == MEASURED or module_of(program.partition("@")[0]) or "@" in program
    return (program, path) if colon and known else (None, source)
