"""Asks llama.cpp how likely tokens are: `python ask_llama.py FOLDER`, a line of cases each.

FOLDER has the files of xllamacpp, whose shared library's own functions are called. A case is
a GGUF file and tokens; the answer is the log probability of each token but the first. The key/value cache is
float32 and attention is not flash attention, which rounds. In place of a file a case may have the words of a
command, which llama-server's own parser takes.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np

from support.answering import answer_lines

CHUNK = 256
WORDS = 256
"""Numbers of 32 bits in what is passed by value, more than llama.cpp looks at."""


class Parameters(ctypes.Structure):
    """The parameters of a model or a context, as their numbers of 32 bits."""

    _fields_ = (("word", ctypes.c_int32 * WORDS),)


class Batch(ctypes.Structure):
    """llama_batch."""

    _fields_ = (
        ("count", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("vectors", ctypes.c_void_p),
        ("position", ctypes.POINTER(ctypes.c_int32)),
        ("sequences", ctypes.POINTER(ctypes.c_int32)),
        ("sequence", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("answered", ctypes.POINTER(ctypes.c_int8)),
    )


LENGTH, KEYS, VALUES = 0, 26, 27
"""Where they stand in a context's parameters: checked by what is there by default."""
DEFAULTS = {LENGTH: 512, KEYS: 1, VALUES: 1}
THREADS, TO_FLASH = [4, 4], 6
"""Two numbers of threads by default, and how far behind the first of them flash attention stands, -1 by default."""
SERVER, INSIDE = 12, 16
"""llama-server's number among the programs that the parser knows, and where xllamacpp keeps the parser's answer."""


def main(folder: Path) -> None:
    """Answer every case."""
    (library,) = folder.rglob("xllamacpp/*.so")
    llama = ctypes.CDLL(str(library))
    llama.llama_model_default_params.restype = llama.llama_context_default_params.restype = Parameters
    llama.llama_model_load_from_file.restype = llama.llama_init_from_model.restype = ctypes.c_void_p
    llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Parameters]
    llama.llama_init_from_model.argtypes = [ctypes.c_void_p, Parameters]
    llama.llama_batch_init.restype = Batch
    llama.llama_batch_free.argtypes, llama.llama_batch_free.restype = [Batch], None
    llama.llama_decode.argtypes = [ctypes.c_void_p, Batch]
    llama.llama_get_logits_ith.restype = ctypes.POINTER(ctypes.c_float)
    llama.llama_get_logits_ith.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    llama.llama_model_get_vocab.restype = ctypes.c_void_p
    llama.llama_model_get_vocab.argtypes = llama.llama_vocab_n_tokens.argtypes = [ctypes.c_void_p]
    for free in (llama.llama_free, llama.llama_model_free):
        free.argtypes, free.restype = [ctypes.c_void_p], None
    llama.llama_backend_init()
    sys.path.append(str(library.parents[1]))
    from xllamacpp import CommonParams

    parse = llama._Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E
    of_model = llama._Z28common_model_params_to_llamaR13common_params
    of_context = llama._Z30common_context_params_to_llamaRK13common_params
    parse.restype, of_model.restype, of_context.restype = ctypes.c_bool, Parameters, Parameters
    of_model.argtypes = of_context.argtypes = [ctypes.c_void_p]
    parse.argtypes = [
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
    ]

    def parsed(words: list[str]) -> Any:
        """What llama-server makes of its words: for the model, for the context, and what keeps both alive."""
        given = CommonParams()
        place = id(given) + INSIDE
        array = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
        assert parse(len(words), array, place, SERVER, None), words
        given.n_parallel = 1
        assert given.n_ctx == int(words[words.index("-c") + 1])
        return of_model(place), of_context(place), given

    def answer(case: dict[str, Any]) -> list[float]:
        tokens = case["tokens"]
        of_file, settings = llama.llama_model_default_params(), llama.llama_context_default_params()
        assert {place: settings.word[place] for place in DEFAULTS} == DEFAULTS, list(settings.word)[:32]
        words = list(settings.word)
        threads = next(i for i in range(1, WORDS) if words[i : i + 2] == THREADS)
        flash = threads + TO_FLASH
        assert words[flash] == -1, words[:32]
        settings.word[LENGTH] = -(-len(tokens) // CHUNK) * CHUNK
        if command := case.get("command"):
            of_file, settings, given = parsed(command)
            case["file"] = given.model.path
        model = llama.llama_model_load_from_file(case["file"].encode(), of_file)
        assert model, "llama.cpp does not load this file"
        for place in (threads, threads + 1):
            settings.word[place] = 1
        for place in (flash, KEYS, VALUES):
            settings.word[place] = 0
        context = llama.llama_init_from_model(model, settings)
        size = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        batch = llama.llama_batch_init(CHUNK, 0, 1)
        weights: list[float] = []
        for start in range(0, len(tokens), CHUNK):
            part = tokens[start : start + CHUNK]
            batch.count = len(part)
            for i, token in enumerate(part):
                batch.token[i], batch.position[i] = token, start + i
                batch.sequences[i], batch.sequence[i][0], batch.answered[i] = 1, 0, 1
            assert llama.llama_decode(context, batch) == 0
            for i, following in enumerate(tokens[start + 1 : start + 1 + len(part)]):
                logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), (size,))
                top = logits.max()
                total = np.exp(logits - top).sum(dtype=np.float64)
                weights.append(float(logits[following]) - float(top) - float(np.log(total)))
        llama.llama_batch_free(batch)
        llama.llama_free(context)
        llama.llama_model_free(model)
        return weights

    answer_lines(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
