"""Loads a model and its tokenizer from a folder or GGUF file, hashes weights, and saves new folders.

Weights from safetensors, sharded or not, stay memory-mapped if they are loaded in the dtype of the file.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posenc.errors import InvalidArgument, MissingExtra, StudyError, first_line
from posenc.integrations.huggingface.config_class import config_class, quiet
from posenc.integrations.huggingface.language_model import path_of_text


def open_model(path: Path, dtype: torch.dtype) -> tuple[nn.Module, Any]:
    """Return the model and its tokenizer; errors from transformers are shortened to one line."""
    if not path.exists():
        raise StudyError(f"{str(path)!r} does not exist; pass a model's folder or a .gguf file")
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra("transformers", "hf") from error
    packed = path.suffix == ".gguf"
    folder, extra = (path.parent, {"gguf_file": path.name}) if packed else (path, {})
    how: dict[str, Any] = {"local_files_only": True, **extra}
    with quiet(), redirect_stderr(io.StringIO()):  # hide messages and progress bars
        kind = transformers.AutoModelForCausalLM if packed else _kind(path)
        try:
            model, info = kind.from_pretrained(folder, dtype=dtype, output_loading_info=True, **how)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
        except Exception as error:  # transformers, safetensors and gguf raise their own exceptions
            raise StudyError(
                f"{str(path)!r} cannot be loaded: {first_line(error)}; download the model again"
            ) from error
    if packed:  # loading dequantised the weights, so save them that way
        model.hf_quantizer = None
        vars(model.config).pop("quantization_config", None)
    if missing := sorted(info["missing_keys"]):
        raise StudyError(
            f"{str(path)!r} lacks {len(missing)} weights, including {missing[0]}; download the model again"
        )
    return model, tokenizer


def from_config(config: dict[str, Any]) -> Any:
    """Return a causal language model with this config and untrained weights."""
    made = config_class(config["model_type"]).from_dict(config)
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(made).eval()


def _kind(path: Path) -> Any:
    """Return the class that loads the language model in this folder, with its vision and audio towers if any.

    The model is first built without weights. If building fails, the config is wrong, so the error asks for a
    correction of the config, not for a new download of the model.
    """
    import transformers

    if not any(path.glob("*.safetensors")):
        raise StudyError(
            f"{str(path)!r} has no .safetensors file, and pickled weights are not read, because they can run code; "
            "save the model with save_pretrained first"
        )
    for kind in (transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText):
        try:
            config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
            if type(config) in kind._model_mapping:
                with torch.device("meta"):
                    kind.from_config(config)
                return kind
        except Exception as error:
            raise InvalidArgument(
                f"{str(path / 'config.json')!r} does not describe a model that transformers can build: "
                f"{first_line(error)}; correct it"
            ) from error
    raise InvalidArgument(
        f"model_type {config.model_type!r} is not a language model in transformers; pass the folder of its "
        "text model"
    )


def save(model: Any, tokenizer: Any, folder: Path, changes: Mapping[str, Any]) -> None:
    """Write a folder that transformers can load: weights, tokenizer, and the config with ``changes`` applied to its
    language model's part.

    Raises:
        StudyError: the folder cannot be written.
    """
    try:
        with redirect_stderr(io.StringIO()):  # hide the progress bar
            model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        file = folder / "config.json"
        config = json.loads(file.read_text(encoding="utf-8"))
        inner = reduce(getitem, path_of_text(config), config)
        inner.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del inner[key]
        file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{str(folder)!r} cannot be written: {error.strerror}; choose another --output") from error


def identity(path: Path) -> str:
    """Return a hash of the config and of all bytes of the weight files, as sixteen hexadecimal digits."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted([*path.glob("*.safetensors"), *path.glob("*.bin")])
    config = path / "config.json"
    if config.exists():
        digest.update(json.dumps(json.loads(config.read_text()), sort_keys=True).encode())
    for file in files:
        with file.open("rb") as stream:
            digest.update(file.name.encode() + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]
