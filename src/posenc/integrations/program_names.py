"""Names of programs as people write them, and sources that begin with one; nothing here imports a program."""

import pkgutil
from pathlib import Path

NAMES = tuple(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "programs")]))
"""The programs: the files of that folder."""
SPELT = {
    "llama.cpp": "llama_cpp",
    "llamacpp": "llama_cpp",
    "mlx-lm": "mlx",
    "hf": "transformers",
    "llama-factory": "transformers",
    "llamafactory": "transformers",
}
"""Names of programs as people write them, besides those of modules; one that trains with another is that other."""


def name_of(module: str) -> str:
    """The name of a program's module as people write it, in every answer."""
    return next((text for text, named in SPELT.items() if named == module and module != "transformers"), module)


def module_of(name: str) -> str | None:
    """The module of a program's name, in any case and with - or _; None of another program."""
    plain = name.lower().replace("_", "-")
    module = SPELT.get(plain, plain.replace("-", "_").replace(".", "_"))
    return module if module in NAMES else None


def split(source: str) -> tuple[str | None, str]:
    """The program, with its version, and the path of a source; None for a path alone."""
    program, colon, path = source.partition(":")
    known = module_of(program.partition("@")[0]) or "@" in program
    return (program, path) if colon and known else (None, source)
