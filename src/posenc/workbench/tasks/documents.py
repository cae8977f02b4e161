"""Reads the documents of a text: a file, the files of a folder, or the rows of JSONL and parquet files."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

from posenc.errors import MissingExtra, StudyError, first_line

CHUNK = 2**20
"""The number of bytes per read."""
DEFAULT = Path(__file__).with_name("default_text.xz")
"""The default text of a study, which is posenc's documentation of 2026-11-23."""
SEPARATOR = b"\f"
"""The separator between documents of the default text."""
ROWS = (".jsonl", ".parquet")
"""The suffixes of files with one document per row."""

Document = tuple[str, Iterator[bytes]]
"""A document's name, and an iterator over pieces of its bytes. A hash of the name determines whether the document
belongs to the training or to the validation part."""


def files(path: Path) -> list[Path]:
    """Return the file itself, or the files of a folder in sorted order, without hidden files."""
    if not path.is_dir():
        return [path]
    inside = (file for file in sorted(path.rglob("*")) if file.is_file())
    return [f for f in inside if not any(part.startswith(".") for part in f.relative_to(path).parts)]


def documents(path: Path) -> Iterator[Document]:
    """Yield every document of a file or folder.

    Raises:
        StudyError: a file cannot be read, or it has no column or key ``text``.
    """
    if path == DEFAULT:
        for number, body in enumerate(lzma.decompress(path.read_bytes()).split(SEPARATOR)):
            yield str(number), iter([body])
        return
    for file in files(path):
        name = str(file.relative_to(path if path.is_dir() else path.parent))
        try:
            if file.suffix.lower() in ROWS:
                rows = _jsonl(file) if file.suffix.lower() == ".jsonl" else _parquet(file)
                yield from ((f"{name} {number}", iter([row])) for number, row in enumerate(rows))
            else:
                with file.open("rb") as opened:
                    yield name, iter(lambda: opened.read(CHUNK), b"")
        except OSError as error:
            raise StudyError(
                f"text {str(path)!r} cannot be read: {error.strerror}; pass a readable file or folder"
            ) from error


def _jsonl(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        for number, line in filter(lambda row: row[1].strip(), enumerate(lines, 1)):  # without blank lines
            try:
                yield (json.loads(line)["text"] or "").encode(errors="replace")  # "?" for a lone surrogate
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise StudyError(
                    f"text {str(file)!r}: line {number} is not an object with a string 'text'; write one object "
                    'per line, such as {"text": "…"}'
                ) from error


def _parquet(file: Path) -> Iterator[bytes]:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    try:
        with parquet.ParquetFile(file) as table:
            table.schema_arrow.field("text")
            for group in range(table.num_row_groups):  # in batches, to save memory
                for batch in table.iter_batches(256, row_groups=[group], columns=["text"]):
                    yield from ((value.as_py() or "").encode() for value in batch.column(0))
    except (ArrowException, KeyError, AttributeError) as error:
        raise StudyError(
            f"text {str(file)!r} is not a parquet table with a column 'text' of strings ({first_line(error)})"
        ) from error
