"""Write ``programs/rope_types.json``: the pairing that llama.cpp's library reports for each architecture.

Run ``python -m tools.rope_types`` after `make programs`. For each architecture in gguf, it loads a file without
tensors in vocabulary-only mode and calls the library's ``llama_model_rope_type``.
"""

import ctypes
import json
import tempfile
from pathlib import Path

from posenc.integrations.programs.llama_cpp import PROGRAM

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "posenc" / "integrations" / "programs" / "rope_types.json"
TYPES = {-1: "none", 0: "neighbours", 2: "halves", 8: "sections", 40: "interleaved sections"}
"""The values of LLAMA_ROPE_TYPE in llama.h."""
VOCABULARY_ALONE = {"2026.7.10068": 64, "2026.10.11549": 72}
"""Byte offset of ``vocab_only`` in llama_model_params, by release; a test checks that nothing else is loaded."""
SIZES = {"context_length": 64, "embedding_length": 64, "block_count": 2, "attention.head_count": 4, "vocab_size": 8}


class Parameters(ctypes.Structure):
    """The struct llama_model_params, as bytes."""

    _fields_ = (("byte", ctypes.c_uint8 * 1024),)


def asked(version: str) -> dict[str, list[str]]:
    """Return the architectures of each type, without those that the library does not load."""
    import gguf

    library = next((ROOT / "build" / "programs" / f"xllamacpp-{version}").rglob("xllamacpp/*.so"))
    llama = ctypes.CDLL(str(library))
    log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    silent = log(lambda *_: None)
    llama.llama_model_default_params.restype = Parameters
    llama.llama_model_load_from_file.restype = ctypes.c_void_p
    llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Parameters]
    llama.llama_model_rope_type.argtypes = llama.llama_model_free.argtypes = [ctypes.c_void_p]
    llama.llama_log_set(silent, None)
    llama.llama_backend_init()
    parameters = llama.llama_model_default_params()
    parameters.byte[VOCABULARY_ALONE[version]] = 1
    table: dict[str, list[str]] = {name: [] for name in TYPES.values()}
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(gguf.MODEL_ARCH_NAMES.values()):
            path = Path(folder, f"{name}.gguf")
            writer = gguf.GGUFWriter(path, name)
            writer.add_string("tokenizer.ggml.model", "no_vocab")
            for key, value in SIZES.items():
                writer.add_uint32(f"{name}.{key}", value)
            for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
                write()
            writer.close()
            model = llama.llama_model_load_from_file(str(path).encode(), parameters)
            if model:
                table[TYPES[llama.llama_model_rope_type(model)]].append(name)
                llama.llama_model_free(model)
    return table


if __name__ == "__main__":
    TABLE.write_text(json.dumps(asked(PROGRAM.releases.versions[-1]), indent=1) + "\n")
