"""Real text to learn from: bytes, split into training and validation by document, with a hash of all of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import StudyError

VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class Text:
    """Bytes as int64 tokens.

    Args:
        name: what it is, for a reader.
        sha256: of the training and validation bytes together.
    """

    name: str
    sha256: str
    train: Int[Tensor, " n"]
    validation: Int[Tensor, " m"]


def load(path: Path | None = None) -> Text:
    """The text of a file, or by default the language topics that ship with CPython.

    The topics are split by document, a fixed tenth of the bytes going to validation; a file gives its last
    tenth, in one piece, so that long contexts stay whole.
    """
    if path is None:
        return _python_topics()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StudyError(f"text {str(path)!r} cannot be read: {error.strerror}; pass a readable file") from error
    if not data:
        raise StudyError(f"text {str(path)!r} is empty; pass a file with at least a few hundred thousand bytes")
    cut = int(len(data) * (1 - VALIDATION_SHARE))
    return _text(path.name, data[:cut], data[cut:])


def _python_topics() -> Text:
    from pydoc_data.topics import topics

    documents = {name: body.encode() for name, body in topics.items()}
    order = sorted(documents, key=lambda name: hashlib.sha256(name.encode()).digest())
    wanted = VALIDATION_SHARE * sum(map(len, documents.values()))
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    taken = 0
    for name in order:
        held_out = taken < wanted
        taken += len(documents[name]) if held_out else 0
        parts[held_out].append(documents[name])
    return _text("Python language topics", b"\n\n".join(parts[0]), b"\n\n".join(parts[1]))


def _text(name: str, train: bytes, validation: bytes) -> Text:
    digest = hashlib.sha256(train + validation).hexdigest()
    return Text(name, digest, _tokens(train), _tokens(validation))


def _tokens(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long() if data else torch.empty(0).long()
