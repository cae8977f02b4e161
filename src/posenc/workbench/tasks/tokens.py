"""Tokenizers: bytes, byte pairs trained on the training part of a text, or a tokenizer file."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import MissingExtra, StudyError

PIECE = 2**20
"""Bytes that are cut into tokens at a time; a piece ends with a line, where there are lines."""


class Bytes:
    """Every byte is a token."""

    name, unit, vocabulary = "bytes", "byte", 256

    def encode(self, data: bytes) -> Int[Tensor, " n"]:
        return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)

    @property
    def json(self) -> str:
        """The same for the ``tokenizers`` library: pieces of one byte, without merges."""
        library, plain = _library(), {*range(33, 127), *range(161, 173), *range(174, 256)}
        others = [byte for byte in range(256) if byte not in plain]  # written as what follows, in GPT-2's order
        letters = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
        tokenizer = library.Tokenizer(library.models.BPE(vocab=letters, merges=[]))
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        return str(tokenizer.to_str())


@dataclass(frozen=True)
class Pieces:
    """A tokenizer of the ``tokenizers`` library, by its JSON."""

    json: str
    unit = "token"

    @cached_property
    def name(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()[:16]

    @cached_property
    def vocabulary(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    @cached_property
    def _tokenizer(self) -> Any:
        return _library().Tokenizer.from_str(self.json)

    def encode(self, data: bytes) -> Int[Tensor, " n"]:
        texts = [piece.decode(errors="replace") for piece in pieces(data)]
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return torch.tensor([token for each in encodings for token in each.ids], dtype=torch.int32)


Tokens = Bytes | Pieces
"""Cuts bytes into tokens. Plans hold its ``name``: ``bytes``, or a hash of all that decides the cuts."""


def pieces(data: bytes) -> Iterator[bytes]:
    """The data in pieces of about ``PIECE`` bytes, cut behind a line where one ends."""
    first = 0
    while first < len(data):
        last = first + PIECE
        if last < len(data):
            last = data.rfind(b"\n", first, last) + 1 or last
        yield data[first:last]
        first = last


def trained_bpe(train: bytes, vocabulary: int) -> str:
    """A byte-level BPE tokenizer with ``vocabulary`` tokens, trained on this text, as JSON; it cuts any bytes."""
    library = _library()
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((piece.decode(errors="replace") for piece in pieces(train)), trainer)
    return str(tokenizer.to_str())


def of_file(path: Path) -> Pieces:
    """The tokenizer of a ``tokenizer.json``."""
    library = _library()
    try:
        return Pieces(library.Tokenizer.from_file(str(path)).to_str())
    except Exception as error:  # the library raises plain Exception for whatever it cannot read
        raise StudyError(
            f"tokenizer={str(path)!r} cannot be read ({error}); use bytes, bpe, or the path of a tokenizer.json"
        ) from error


def _library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise MissingExtra("tokenizers", "hf") from error
    return tokenizers
