"""The names of programs in all spellings, and the parsing of sources that begin with such a name, as in
``vllm:config.json``. This module imports no program."""

import pkgutil
from pathlib import Path

NAMES = tuple(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "programs")]))
"""The names of the modules in the folder ``programs``, one module per program."""
MEASURED = "measured"
"""The prefix of a source whose positional encoding is measured on a small random model in transformers."""
SPELT = {
    "llama.cpp": "llama_cpp",
    "llamacpp": "llama_cpp",
    "mlx-lm": "mlx",
    "hf": "transformers",
    "llama-factory": "transformers",
    "llamafactory": "transformers",
}
"""Other spellings of program names, with their modules. The training tool LLaMA-Factory has the module
``transformers``, because it runs transformers."""


def name_of(module: str) -> str:
    """Return the usual name of a program, such as ``llama.cpp`` for the module ``llama_cpp``."""
    return next((text for text, named in SPELT.items() if named == module and module != "transformers"), module)


def module_of(name: str) -> str | None:
    """Return the module of a program, or None if the program is unknown. The name may be in upper or lower case,
    and may have - or _ between words.
    """
    plain = name.lower().replace("_", "-")
    module = SPELT.get(plain, plain.replace("-", "_").replace(".", "_"))
    return module if module in NAMES else None


def split(source: str) -> tuple[str | None, str]:
    """Split a source into a prefix and a path. The prefix is a program, with or without a version
    (``vllm@0.33.0``), or ``measured``, or None.

    An unknown prefix counts as a program if it has a version, or if the rest of the source is an existing path and
    the whole source is not.
    """
    program, colon, path = source.partition(":")
    known = (
        program == MEASURED
        or module_of(program.partition("@")[0])
        or "@" in program
        or (Path(path).exists() and not Path(source).exists())
    )
    return (program, path) if colon and known else (None, source)
