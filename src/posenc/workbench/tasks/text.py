"""Real text: tokens, split into training and validation by document, with a hash of both."""

import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from jaxtyping import Int
from torch import Tensor

from posenc.errors import MissingExtra, StudyError
from posenc.workbench.tasks.cache import cached, mapped
from posenc.workbench.tasks.tokens import Bytes, Pieces, Tokens, of_file, trained_bpe

VALIDATION_SHARE = 0.1
BETWEEN = b"\n\n"
"""The separator of documents."""
DEFAULT = Path(__file__).with_name("default_text.xz")
"""The text of a study that names none: posenc's documentation of one day, which ``tools/default_text.py`` froze."""
DOCUMENT = b"\f"
"""The separator of its documents."""


@dataclass(frozen=True)
class Text:
    """Tokens.

    Args:
        name: for people.
        sha256: of the training and validation bytes together.
        train, validation: tokens in the narrowest type that holds them; memory-mapped unless they are bytes.
        tokens: the tokenizer.
    """

    name: str
    sha256: str
    train: Int[Tensor, " n"]
    validation: Int[Tensor, " m"]
    tokens: Tokens = field(default_factory=Bytes)


@dataclass(frozen=True)
class Source:
    """A text's files and its tokenizer.

    Args:
        path: a file, a folder of files, or a .parquet file with a column ``text``; by default posenc's own
            documentation of 2026-11-23, the same bytes in every version.
        tokenizer: ``bytes``, ``bpe`` for byte pairs trained on the training part, or the path of a tokenizer.json.
        vocabulary: size of the ``bpe`` tokenizer.
    """

    path: Path | None = None
    tokenizer: str = "bytes"
    vocabulary: int = 4096

    def load(self) -> Text:
        """The text; once a process, while its files are as they were."""
        stamp = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in self.files())
        return _loaded(self, stamp)

    def files(self) -> tuple[Path, ...]:
        """The files that are read, in order."""
        if self.path is None or not self.path.is_dir():
            return () if self.path is None or not self.path.exists() else (self.path,)
        inside = (file for file in sorted(self.path.rglob("*")) if file.is_file())
        return tuple(f for f in inside if not any(part.startswith(".") for part in f.relative_to(self.path).parts))


def load(path: Path | None = None) -> Text:
    """The bytes of a text, as tokens."""
    return Source(path).load()


@lru_cache(maxsize=2)
def _loaded(source: Source, stamp: tuple[object, ...]) -> Text:
    """The bytes as they are; longer tokens from the cache where they were cut before.

    Documents (topics, files of a folder, rows of a table) are split by the hash of their names, a fixed tenth of
    the bytes going to validation; a single file gives its last tenth, in one piece, so that long contexts stay
    whole.
    """
    name, train, validation = _parts(source)
    digest = hashlib.sha256(train + validation).hexdigest()
    if source.tokenizer == "bytes":
        return Text(name, digest, Bytes().encode(train), Bytes().encode(validation))
    if source.tokenizer == "bpe":
        name_of_bpe = f"{digest[:16]}-{source.vocabulary}.json"
        cutter = Pieces(cached(name_of_bpe, lambda: trained_bpe(train, source.vocabulary).encode()).decode())
    else:
        cutter = of_file(Path(source.tokenizer))
    first, second = (
        mapped(f"{digest[:16]}-{cutter.name}-{part}.i32", partial(cutter.encode, data))
        for part, data in (("train", train), ("validation", validation))
    )
    return Text(name, digest, first, second, cutter)


def _parts(source: Source) -> tuple[str, bytes, bytes]:
    """The text's name, and the bytes of its training and its validation part."""
    path = source.path
    if path is None:
        bodies = lzma.decompress(DEFAULT.read_bytes()).split(DOCUMENT)
        return "posenc's documentation", *_split({str(number): body for number, body in enumerate(bodies)})
    try:
        if path.is_dir():
            documents = {k: v for file in source.files() for k, v in _documents(file, path)}
            return path.name, *_split(documents, path)
        if path.suffix == ".parquet":
            return path.name, *_split(dict(_documents(path, path.parent)), path)
        data = path.read_bytes()
    except OSError as error:
        raise StudyError(
            f"text {str(path)!r} cannot be read: {error.strerror}; pass a readable file or folder"
        ) from error
    if not data:
        raise _empty(path)
    cut = int(len(data) * (1 - VALIDATION_SHARE))
    return path.name, data[:cut], data[cut:]


def _empty(path: Path) -> StudyError:
    return StudyError(f"text {str(path)!r} is empty; pass a file with at least a few hundred thousand bytes")


def _documents(file: Path, root: Path) -> Iterator[tuple[str, bytes]]:
    """The documents of one file by name: its rows, or all of it."""
    name = str(file.relative_to(root))
    if file.suffix != ".parquet":
        yield name, file.read_bytes()
        return
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    try:
        column = parquet.read_table(file, columns=["text"]).column("text")
    except (ArrowException, KeyError) as error:
        raise StudyError(
            f"text {str(file)!r} is no parquet table with a column 'text' ({str(error).splitlines()[0]})"
        ) from error
    for row, value in enumerate(column):
        yield f"{name} {row}", (value.as_py() or "").encode()


def _split(documents: dict[str, bytes], path: Path | None = None) -> tuple[bytes, bytes]:
    """Training and validation: documents in the order of their names' hashes, the first tenth held out."""
    order = sorted(documents, key=lambda name: hashlib.sha256(name.encode()).digest())
    wanted = VALIDATION_SHARE * sum(map(len, documents.values()))
    if not wanted and path:
        raise _empty(path)
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    taken = 0
    for name in order:
        held_out = taken < wanted
        taken += len(documents[name]) if held_out else 0
        parts[held_out].append(documents[name])
    return BETWEEN.join(parts[0]), BETWEEN.join(parts[1])
