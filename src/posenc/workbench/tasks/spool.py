"""A text's documents in one file, put in order and split there: memory holds only where each begins and ends."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.tasks.documents import CHUNK, Document

VALIDATION_SHARE = 0.1
BETWEEN = b"\n\n"
"""Between documents that are read as one."""

Stretches = Int[Tensor, "_ 2"]
"""Where documents begin in the file, and how many bytes each has."""


def spooled(documents: Iterable[Document], file: Path) -> Stretches:
    """Write documents to a file one after the other; returns where they are, ordered by the hash of their names."""
    hashes, stretches = array("q"), array("q")
    with file.open("wb") as out:
        for name, pieces in documents:
            start = out.tell()
            out.writelines(pieces)
            hashes.append(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") - 2**63)
            stretches.extend((start, out.tell() - start))
    order = torch.tensor(hashes, dtype=torch.int64).argsort()
    return torch.tensor(stretches, dtype=torch.int64).view(-1, 2)[order]


def split(stretches: Stretches) -> tuple[Stretches, Stretches]:
    """Training and validation: the first documents are held out, a tenth of the bytes.

    A document by itself gives its last tenth, so that long contexts stay whole.
    """
    lengths = stretches[:, 1].double()
    if len(stretches) == 1:
        cut = int(float(lengths) * (1 - VALIDATION_SHARE))
        return torch.tensor([[0, cut]]), torch.tensor([[cut, int(lengths) - cut]])
    held_out = int((lengths.cumsum(0) - lengths < VALIDATION_SHARE * lengths.sum()).sum())
    return stretches[held_out:], stretches[:held_out]


def joined(file: Path, stretches: Stretches) -> Iterator[bytes]:
    """These documents as one, in pieces."""
    with file.open("rb") as spool:
        for number, (start, length) in enumerate(stretches):
            if number:
                yield BETWEEN
            spool.seek(int(start))
            for at in range(0, int(length), CHUNK):
                yield spool.read(min(CHUNK, int(length) - at))
