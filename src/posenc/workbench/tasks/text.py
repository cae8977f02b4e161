"""Reads real text as tokens, splits its documents into a training and a validation part, and hashes both parts."""

import hashlib
import json
import math
import os
import shutil
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import StudyError
from posenc.workbench.files import PARTIAL, lock
from posenc.workbench.run.machine import trim
from posenc.workbench.run.settings import TextSettings
from posenc.workbench.tasks.documents import CHUNK, DEFAULT, Document, documents, files
from posenc.workbench.tasks.tokens import PIECE, Bytes, Pieces, Tokens, of_file, pieces, trained_bpe

BATCH = 16
"""The number of pieces that are tokenized in parallel, one per thread."""
VALIDATION_SHARE = 0.1
BETWEEN = b"\n\n"
"""The separator between joined documents."""

Stretches = Int[Tensor, "_ 2"]
"""The start of each document in a file, and the document's length, both in bytes."""
PARTS = ("train", "validation")
"""The parts of a text, and the names of their token files."""
SAMPLE = 128
"""The largest number of pieces, evenly spread over the training part, on which a ``bpe`` tokenizer is trained."""


@dataclass(frozen=True)
class Text:
    """A text as tokens, in memory-mapped files.

    Args:
        name: the text's name in messages.
        sha256: the hash of the training and validation bytes combined.
        train, validation: the tokens of each part, in the narrowest type that fits.
        tokens: the tokenizer.
    """

    name: str
    sha256: str
    train: Int[Tensor, " n"]
    validation: Int[Tensor, " m"]
    tokens: Tokens = field(default_factory=Bytes)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle tokens as bytes, because torch cannot load pickled uint16 tensors."""
        return {**vars(self), **{name: vars(self)[name].view(torch.uint8) for name in PARTS}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, **{name: state[name].view(state["tokens"].dtype) for name in PARTS})


@dataclass(frozen=True, kw_only=True)
class Source(TextSettings):
    """The files of a text and its tokenizer.

    The default text is a copy of posenc's documentation from 2026-11-23. Later versions of posenc have the same
    copy. A ``bpe`` tokenizer is trained on the training part.
    """

    def load(self, say: Callable[[str], object] = str) -> Text:
        """Load the text. The tokens are cached for all processes until the files of the text change.

        ``say`` is called with a message before tokenizing, which takes minutes per gigabyte.
        """
        path = self.text or DEFAULT
        name = path.name if self.text else "posenc's documentation"
        stamps = self._stamps(path)

        def cut(folder: Path) -> None:
            if size := sum(file.stat().st_size for file in files(path) if file.exists()):
                say(f"tokenizing {name} ({size / 1e6:.1f} MB on disk); the tokens are cached for later runs")
            self._cut(path, folder)
            if self._stamps(path) != stamps:
                raise StudyError(f"text {str(path)!r} changed while it was being read; run the command again")

        return _opened(cached(json.dumps([*map(str, astuple(self)), *stamps]), cut), name)

    def _stamps(self, path: Path) -> list[object]:
        """Return values that change when any file of the text or of the tokenizer changes."""
        of_tokenizer = [] if self.tokenizer in ("bytes", "bpe") else [Path(self.tokenizer)]
        status = [(file.resolve(), file.stat()) for file in (*files(path), *of_tokenizer) if file.exists()]
        return [(str(file), each.st_size, each.st_mtime_ns, each.st_ctime_ns) for file, each in status]

    def _cut(self, path: Path, folder: Path) -> None:
        """Tokenize the text, and write its tokens, tokenizer and hash to a folder."""
        spool, digest = folder / "spool", hashlib.sha256()
        stretches = spooled(documents(path), spool)
        if not spool.stat().st_size:
            raise StudyError(f"text {str(path)!r} is empty; pass a file with at least a few hundred thousand bytes")
        parts = split(stretches)
        tokens = self._tokens(spool, parts[0])
        if isinstance(tokens, Pieces):
            (folder / "tokenizer.json").write_text(tokens.json, encoding="utf-8")
        for name, part in zip(PARTS, parts, strict=True):
            waiting = pieces(joined(spool, part))
            with (folder / name).open("wb") as out:
                while batch := list(islice(waiting, BATCH)):
                    digest.update(b"".join(batch))
                    out.writelines(tokens.encode(batch))
        (folder / "sha256").write_text(digest.hexdigest())
        spool.unlink()
        trim()

    def _tokens(self, spool: Path, train: Stretches) -> Tokens:
        if self.tokenizer == "bytes":
            return Bytes()
        if self.tokenizer == "bpe":
            every = max(1, math.ceil(spool.stat().st_size * (1 - VALIDATION_SHARE) / (SAMPLE * PIECE)))
            return Pieces(trained_bpe(islice(pieces(joined(spool, train)), None, None, every), self.vocabulary))
        return of_file(Path(self.tokenizer))


def load(path: Path | None = None) -> Text:
    """Load the bytes of a text as tokens."""
    return Source(text=path).load()


@lru_cache(maxsize=2)
def _opened(folder: Path, name: str) -> Text:
    """Open a text in a cache folder."""
    json = folder / "tokenizer.json"
    tokens = Pieces(json.read_text(encoding="utf-8")) if json.exists() else Bytes()
    train, validation = (_mapped(folder / part, tokens.dtype) for part in PARTS)
    return Text(name, (folder / "sha256").read_text(), train, validation, tokens)


def _mapped(file: Path, dtype: torch.dtype) -> Int[Tensor, " n"]:
    size = file.stat().st_size // dtype.itemsize
    return torch.from_file(str(file), shared=False, size=size, dtype=dtype) if size else torch.empty(0, dtype=dtype)


def spooled(documents: Iterable[Document], file: Path) -> Stretches:
    """Write documents to a file one after another, and return their starts and lengths, sorted by hashes of their
    names."""
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
    """Split documents into a training and a validation part.

    The validation part consists of the first documents, as many as are needed for a tenth of the bytes. If there is
    only one document, its last tenth is the validation part, so that each part is a continuous text.
    """
    lengths = stretches[:, 1].double()
    if len(stretches) == 1:
        cut = int(float(lengths) * (1 - VALIDATION_SHARE))
        return torch.tensor([[0, cut]]), torch.tensor([[cut, int(lengths) - cut]])
    held_out = int((lengths.cumsum(0) - lengths < VALIDATION_SHARE * lengths.sum()).sum())
    return stretches[held_out:], stretches[:held_out]


def joined(file: Path, stretches: Stretches) -> Iterator[bytes]:
    """Join these documents, and yield the result in pieces."""
    with file.open("rb") as spool:
        for number, (start, length) in enumerate(stretches):
            if number:
                yield BETWEEN
            spool.seek(int(start))
            for at in range(0, int(length), CHUNK):
                yield spool.read(min(CHUNK, int(length) - at))


def cached(key: str, make: Callable[[Path], None]) -> Path:
    """Return the cache folder for this key. If the folder does not exist, it is created, and ``make`` fills it.

    Other processes wait until the folder is complete. A killed process leaves only a partial folder, which is never
    read.

    Raises:
        StudyError: the folder is not writable.
    """
    name, cache = hashlib.sha256(key.encode()).hexdigest()[:32], _cache()
    if (cache / name).is_dir():
        return cache / name
    home = cache if _writable(cache) else Path(_temporary().name)
    folder, partial = home / name, home / f"{name}{PARTIAL}"
    try:
        with lock(home / f"{name}.lock", wait=True):
            if folder.is_dir():
                return folder
            shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
            try:
                partial.mkdir()
                make(partial)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except (OSError, sqlite3.Error) as error:
        raise StudyError(
            f"the tokens of the text cannot be written to {str(home)!r} ({error}); free some space, or set "
            "POSENC_CACHE to another folder"
        ) from error
    return folder


def _cache() -> Path:
    """Return the folder of the cached texts, with symbolic links resolved. It is ``texts`` in ``$POSENC_CACHE``, or
    ``posenc/texts`` in the user's cache folder.

    If the user has no home folder, as in some containers, the folder is a temporary one.
    """
    home = os.environ.get("POSENC_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "posenc"
    try:
        return Path(home).expanduser().resolve() / "texts"
    except RuntimeError:
        return Path(_temporary().name)


def _writable(folder: Path) -> bool:
    """Create the folder if possible, and return whether this process may write to it."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK)


@lru_cache(maxsize=1)
def _temporary() -> "TemporaryDirectory[str]":
    """Create a folder that exists until this process ends, for texts that cannot be cached."""
    return TemporaryDirectory(prefix="posenc-texts-")
