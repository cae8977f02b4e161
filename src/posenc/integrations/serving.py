"""The keys, files and command lines that make programs compute a model's positional encoding."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.fingerprint import fingerprint
from posenc.integrations.huggingface.config import contents, read
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.huggingface.model_positions import ModelPositions, scaling_of
from posenc.integrations.huggingface.write import changed
from posenc.integrations.huggingface.write import write as config_json
from posenc.integrations.inspection import length_in_doubt
from posenc.integrations.program_names import name_of
from posenc.integrations.programs import different, laid_over, llama_cpp, within
from posenc.integrations.sources import program_of
from posenc.scaling import LengthScaling, Scaling

REFUSED = "refused: "
"""The beginning of a note that says why a program cannot compute a model's positional encoding."""
NOT_ASKED = "not asked: "
"""The beginning of a note that names an unchecked part of a program; a result with such a note has no command."""


def serving(
    program: str,
    path: Path,
    scaling: Scaling | LengthScaling | str | None = None,
    *,
    base: float | None = None,
    max_length: int | None = None,
) -> dict[str, Any]:
    """Return the keys and the command that make a program compute this model's positional encoding.

    Except for llama.cpp, the keys are verified: posenc reads them as the program would, and returns only a note
    (``REFUSED``) if they give a different positional encoding. A program that computes the same positional encoding
    from the unchanged file needs no keys.

    Args:
        program: a program such as ``"vllm"`` or ``"vllm@0.33.0"``.
        path: a config.json, its folder, or for llama.cpp a .gguf file.
        scaling: a scaling that replaces the model's own. If a string such as ``"yarn(4)"`` does not state the
            original length, the model's trained length is used.
        base: the rotary base, if the config lacks a base.
        max_length: the maximum input length; the default is that of ``huggingface.write``.

    Returns:
        A dictionary with these keys:

        - ``program``, ``version``: the program's name and version.
        - ``fingerprint``: the fingerprint of the resulting positional encoding; empty for llama.cpp.
        - ``overrides``: the config keys that the command passes.
        - ``files``: for each file, the keys to change, with their new values, or None for a key to remove.
        - ``command``: the command line; empty for a library or if notes contain ``NOT_ASKED`` or ``REFUSED``.
        - ``notes``: assumptions about the program; a note that begins with ``NOT_ASKED`` names the part of the
          program that was not checked. If the program cannot compute this positional encoding, the only note is
          ``REFUSED`` followed by the reason.

    Raises:
        UnknownName, InvalidArgument: the program, version or scaling is unknown, or the file cannot be read.
    """
    module, version = program_of(program)
    fields = llama_cpp.fields(path) if path.suffix == ".gguf" else None
    positions = llama_cpp.positions_of(fields) if fields else read(path, base=base)
    scaling = scaling_of(scaling, positions.original_length)
    try:
        if fields and module is not llama_cpp:
            raise InvalidArgument(
                f"{path.name} is a file for llama.cpp; pass the config.json from which it was converted"
            )
        longest = config_json(positions, scaling, max_length=max_length)[positions.length_key]
        wanted = positions if scaling is None else positions.with_scaling(scaling)
        found = (
            _llama_server(path, fields, wanted, longest, scaling is not None)
            if module is llama_cpp
            else _from_config(module, version, path, wanted, longest, stated=(scaling, max_length) != (None, None))
        )
        found["notes"] = [*found.get("notes", ()), *(length_in_doubt(wanted) if scaling else ())]
    except InvalidArgument as error:
        found = {"notes": [f"{REFUSED}{error}"]}
    return {
        "program": name_of(module.PROGRAM.module),
        "version": version,
        "overrides": {},
        "files": {},
        "command": "",
        "notes": [],
        "fingerprint": "",
        **found,
    }


def in_words(answer: Mapping[str, Any]) -> str:
    """Return a result of ``serving`` as text for the terminal."""
    runs = not any(note.startswith((REFUSED, NOT_ASKED)) for note in answer["notes"])
    lines = [
        *([answer["command"]] if answer["command"] else []),
        *(f"in {name}: {json.dumps(keys, ensure_ascii=False)}" for name, keys in answer["files"].items()),
        *(["use the config unchanged"] if runs and not answer["command"] and not answer["files"] else []),
        *(f"note: {note}" for note in answer["notes"]),
    ]
    return "\n  ".join([f"{answer['program']} {answer['version']}", *lines])


def _from_config(
    module: Any, version: str, path: Path, wanted: ModelPositions, longest: int, *, stated: bool
) -> dict[str, Any]:
    """Return the result for a program that reads config.json.

    If the caller passed a scaling or a length (``stated``), keys are always written. If not, keys are written only
    if the program needs them.
    """
    config, program, keys = contents(path), module.PROGRAM, {}
    table = module.read(config, version)
    if stated or different(wanted, table):
        keys = module.write(wanted, max_length=longest, version=version)
        if not program.keys_flag:
            keys = _edit(wanted, keys)
        table = module.read(laid_over(config, keys), version)
    if not any(isinstance(one.get("scaling"), LengthScaling) for one in wanted.rotary_recipes.values()):
        longest = min(longest, table.admitted_length)
    words = [
        program.command.format(model=shlex.quote(str(path.parent if path.suffix == ".json" else path))),
        *([program.keys_flag, shlex.quote(json.dumps(keys))] if program.keys_flag and keys else []),
        *([program.length_flag, str(longest)] if program.length_flag else []),
    ]
    reaches = {  # compressed layers see all tokens
        None if name == "compress" else window or wanted.chunk
        for name in wanted.rotary_recipes
        for window in wanted.windows_of(name)
    }
    unproved = [f"{NOT_ASKED}{table.not_asked}"] if table.not_asked else []
    return {
        "fingerprint": fingerprint(table),
        "overrides": keys if program.keys_flag else {},
        "files": {"config.json": keys} if keys and not program.keys_flag else {},
        "command": "" if unproved else " ".join(words),
        "notes": [
            *unproved,
            *(
                ["all rotary layers have windows within the trained length, so scaling cannot lengthen the context"]
                if stated and reaches and all(reach and reach <= wanted.original_length for reach in reaches)
                else []
            ),
            *table.notes,
        ],
    }


def _edit(positions: ModelPositions, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys to change so that the language model's part of config.json equals ``config``.

    The keys are nested as in the whole file. A value of None removes a key.
    """
    keys = changed(positions.source, config)
    if set(BOTH_FORMS) & set(keys) and "rope_theta" in config:  # the base is replaced together with the dictionary
        keys["rope_theta"] = config["rope_theta"]
    return within(positions.path, keys)


def _llama_server(
    path: Path, fields: llama_cpp.Fields | None, wanted: ModelPositions, longest: int, scaled: bool
) -> dict[str, Any]:
    """Return the result for llama.cpp: flags for a GGUF file, or for the file that its converter would write."""
    file = str(path)
    if fields is None:
        table, file = llama_cpp.read(path), "model.gguf"
        if table.not_asked:
            return {"notes": [f"{NOT_ASKED}{table.not_asked}"]}
        fields, scaled = llama_cpp.converted(table), scaled or bool(different(wanted, table))
    architecture = str(fields.values["general.architecture"])
    words, context = ["llama-server", "-m", shlex.quote(file), "-c", str(longest)], f"{architecture}.context_length"
    try:
        words += llama_cpp.flags(wanted, fields) if scaled else []
    except InvalidArgument as error:
        new = llama_cpp.write(wanted, architecture=architecture, max_length=longest)
        values = {
            **dict.fromkeys(fields.tensors),
            **new.values,
            **{name: tensor.tolist() for name, tensor in new.tensors.items()},
        }
        return {"command": " ".join(words), "files": {file: values}, "notes": [str(error)]}
    if fields.values[context] != longest:  # llama-server truncates longer requests
        words += ["--override-kv", f"{context}=int:{longest}"]
    return {"command": " ".join(words)}
