"""A text's documents in one file, indexed, put in order and split on disk: memory does not grow with the text."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from posenc.workbench.tasks.documents import CHUNK, Document

VALIDATION_SHARE = 0.1
BETWEEN = b"\n\n"
"""Between documents that are read as one."""


class Spool:
    """The training and the validation part of some documents.

    Documents (topics, files of a folder, rows of a table) are ordered by the hash of their names, and the first are
    held out, a tenth of the bytes. A file that is a document by itself gives its last tenth, in one piece, so that
    long contexts stay whole.

    Args:
        folder: where its two files are written.
        documents: are read once.
        single: whether they are one document that is a file by itself.
    """

    def __init__(self, folder: Path, documents: Iterable[Document], single: bool) -> None:
        self.file = folder / "spool"
        self._index = sqlite3.connect(folder / "spool.sqlite", isolation_level=None, check_same_thread=False)
        try:
            self._fill(documents, single)
        except BaseException:
            self.close()
            raise

    def _fill(self, documents: Iterable[Document], single: bool) -> None:
        execute = self._index.execute
        execute("PRAGMA journal_mode = OFF")
        execute("CREATE TABLE read (hash BLOB, start INTEGER, length INTEGER)")
        execute("CREATE TABLE documents (number INTEGER PRIMARY KEY, start INTEGER, length INTEGER)")
        execute("BEGIN")
        self._index.executemany("INSERT INTO read VALUES (?, ?, ?)", self._written(documents))
        self.size: int = execute("SELECT total(length) FROM read").fetchone()[0]
        if single:
            cut = int(self.size * (1 - VALIDATION_SHARE))
            execute("INSERT INTO documents VALUES (1, ?, ?), (2, 0, ?)", (cut, self.size - cut, cut))
            self._held_out = 1
        else:
            execute("INSERT INTO documents (start, length) SELECT start, length FROM read ORDER BY hash")
            before = "SELECT sum(length) OVER (ORDER BY number) - length AS before FROM documents"
            wanted = VALIDATION_SHARE * self.size
            self._held_out = execute(f"SELECT count(*) FROM ({before}) WHERE before < ?", (wanted,)).fetchone()[0]
        execute("DROP TABLE read")
        execute("COMMIT")

    def _written(self, documents: Iterable[Document]) -> Iterator[tuple[bytes, int, int]]:
        with self.file.open("wb") as out:
            for name, pieces in documents:
                start = out.tell()
                out.writelines(pieces)
                yield hashlib.sha256(name.encode()).digest(), start, out.tell() - start

    def documents(self, held_out: bool) -> Iterator[Iterator[bytes]]:
        """The documents of a part, each in pieces, to be read before the next is."""
        with self.file.open("rb") as spool:
            for start, length in self._part(held_out):
                spool.seek(start)
                yield (spool.read(min(CHUNK, length - at)) for at in range(0, length, CHUNK))

    def joined(self, held_out: bool) -> Iterator[bytes]:
        """The part as one document, in pieces."""
        for number, pieces in enumerate(self.documents(held_out)):
            if number:
                yield BETWEEN
            yield from pieces

    def sha256(self) -> str:
        """Of both parts, training first."""
        digest = hashlib.sha256()
        for held_out in (False, True):
            for piece in self.joined(held_out):
                digest.update(piece)
        return digest.hexdigest()

    def _part(self, held_out: bool) -> Iterator[tuple[int, int]]:
        query = f"SELECT start, length FROM documents WHERE number {'<=' if held_out else '>'} ? ORDER BY number"
        return self._index.execute(query, (self._held_out,))

    def close(self) -> None:
        """Let go of the index, and remove both files."""
        self._index.close()
        for file in (self.file, self.file.with_suffix(".sqlite")):
            file.unlink(missing_ok=True)
