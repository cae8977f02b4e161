"""The tokenizers: bytes, a byte-pair encoding trained on the training part of a text, or a tokenizer file."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.run.machine import trim

PIECE = 2**16
"""The largest number of bytes per call of a tokenizer. A call needs about 30 times as much memory."""


class Bytes:
    """A tokenizer in which every byte is a token."""

    name, unit, vocabulary, dtype = "bytes", "byte", 256, torch.uint8

    def encode(self, pieces: Sequence[bytes]) -> "list[array[int]]":
        """Return the tokens of each piece, as numbers of type ``dtype``."""
        return [array("B", piece) for piece in pieces]

    @property
    def json(self) -> str:
        """The JSON of this tokenizer for the ``tokenizers`` library, with one token per byte and no merges."""
        library, plain = _library(), {*range(33, 127), *range(161, 173), *range(174, 256)}
        others = [byte for byte in range(256) if byte not in plain]  # mapped to other characters, in GPT-2's order
        letters = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
        tokenizer = library.Tokenizer(library.models.BPE(vocab=letters, merges=[]))
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        return str(tokenizer.to_str())


@dataclass(frozen=True)
class Pieces:
    """A tokenizer from the ``tokenizers`` library, created from JSON."""

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

    @property
    def dtype(self) -> torch.dtype:
        """The narrowest type that holds every token."""
        return torch.uint16 if self.vocabulary <= 2**16 else torch.int32

    def encode(self, pieces: Sequence[bytes]) -> "list[array[int]]":
        """Return the tokens of each piece, as numbers of type ``dtype``."""
        texts = [piece.decode(errors="replace") for piece in pieces]
        code = "H" if self.dtype == torch.uint16 else "i"
        tokens = [
            array(code, each.ids) for each in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ]
        trim()
        return tokens


Tokens = Bytes | Pieces
"""A tokenizer. Its ``name``, which plans store, is ``bytes`` or a hash of everything that determines the
tokens."""


def pieces(data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data in pieces of at most ``PIECE`` bytes, split at line ends if possible."""
    rest = bytearray()
    for each in data:
        rest += each
        while len(rest) > PIECE:
            last = rest.rfind(b"\n", 0, PIECE) + 1 or PIECE
            yield bytes(rest[:last])
            del rest[:last]
    if rest:
        yield bytes(rest)


def trained_bpe(train: Iterable[bytes], vocabulary: int) -> str:
    """Train a byte-level BPE tokenizer with ``vocabulary`` tokens on these pieces, and return its JSON."""
    library = _library()
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((piece.decode(errors="replace") for piece in train), trainer)
    trim()
    return str(tokenizer.to_str())


def of_file(path: Path) -> Pieces:
    """Load the tokenizer in a ``tokenizer.json`` file."""
    library = _library()
    try:
        return Pieces(library.Tokenizer.from_file(str(path)).to_str())
    except Exception as error:  # the library raises plain Exception for unreadable files
        raise StudyError(
            f"tokenizer={str(path)!r} cannot be read ({error}); use bytes, bpe, or the path of a tokenizer.json"
        ) from error


def _library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise MissingExtra("tokenizers", "hf") from error
    return tokenizers
