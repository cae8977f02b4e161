"""Texts of any form are cut once, for all processes, in constant memory."""

import hashlib
import json
import multiprocessing as mp
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from posenc.errors import StudyError
from posenc.workbench.tasks import text as text_module
from posenc.workbench.tasks.text import Source, Text, load
from posenc.workbench.tasks.tokens import PIECE, Bytes, pieces

ROWS = [f"document {i}: " + "words and more words\n" * (i % 7) for i in range(50)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))


def folder(path: Path, rows: list[str] = ROWS) -> Path:
    path.mkdir()
    for i, row in enumerate(rows):
        (path / f"{i}.txt").write_text(row)
    return path


def jsonl(path: Path, rows: list[str] = ROWS) -> Path:
    path.write_text("".join(json.dumps({"text": row, "more": 1}) + "\n" for row in rows))
    return path


def parquet(path: Path, rows: Sequence[object] = ROWS, column: str = "text") -> Path:
    pyarrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    tables.write_table(pyarrow.table({column: rows}), path)
    return path


def drawn(documents: list[bytes], names: list[str]) -> tuple[bytes, bytes]:
    """Both parts as a dictionary in memory makes them: by the hash of names, the first tenth held out."""
    order = sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for i in order:
        parts[sum(map(len, parts[1])) < 0.1 * sum(map(len, documents))].append(documents[i])
    return b"\n\n".join(parts[0]), b"\n\n".join(parts[1])


def single(path: Path) -> Path:
    path.write_bytes(WHOLE)
    return path


WHOLE = "".join(ROWS).encode()
ENCODED = [row.encode() for row in ROWS]


@pytest.mark.parametrize(
    ("written", "name", "parts"),
    [
        (folder, "texts", drawn(ENCODED, [f"{i}.txt" for i in range(50)])),
        (jsonl, "rows.jsonl", drawn(ENCODED, [f"rows.jsonl {i}" for i in range(50)])),
        (parquet, "rows.parquet", drawn(ENCODED, [f"rows.parquet {i}" for i in range(50)])),
        (single, "single.txt", (WHOLE[: int(0.9 * len(WHOLE))], WHOLE[int(0.9 * len(WHOLE)) :])),
    ],
    ids=["folder", "jsonl", "parquet", "single"],
)
def test_what_is_streamed_is_what_fits_into_memory(
    written: Callable[[Path], Path], name: str, parts: tuple[bytes, bytes], tmp_path: Path
) -> None:
    text = load(written(tmp_path / name))
    assert (bytes(text.train.tolist()), bytes(text.validation.tolist())) == parts
    assert text.sha256 == hashlib.sha256(b"".join(parts)).hexdigest()


def test_pieces_end_with_a_line_and_leave_nothing_out() -> None:
    data = (b"a line of some length\n" * 60_000)[:-1] + b"x" * (PIECE + 5)
    whole = list(pieces([data]))
    assert whole == list(pieces(data[at : at + 1000] for at in range(0, len(data), 1000)))
    assert b"".join(whole) == data
    assert max(map(len, whole)) <= PIECE
    assert whole[0].endswith(b"\n")


def test_a_text_is_read_once_while_its_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reads = folder(tmp_path / "texts"), []
    plain = text_module.documents
    monkeypatch.setattr(text_module, "documents", lambda path: reads.append(path) or plain(path))
    first = load(path)
    text_module._opened.cache_clear()  # as another process has it
    assert torch.equal(load(path).train, first.train)
    assert len(reads) == 1
    (path / "3.txt").write_text("another document, which is longer than before " * 40)
    assert load(path).sha256 != first.sha256
    (path / "3.txt").write_text(ROWS[3])
    assert load(path).sha256 == first.sha256
    assert len(reads) == 3
    for name in (tmp_path / "cache" / "texts").glob("*/sha256"):
        name.parent.rename(f"{name.parent} is gone")
    assert load(path).sha256 == first.sha256


def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = jsonl(tmp_path / "rows.jsonl"), text_module.spooled

    def spooled(documents, file: Path):
        stretches = plain(documents, file)
        jsonl(path, [*ROWS, "one more"])
        return stretches

    monkeypatch.setattr(text_module, "spooled", spooled)
    with pytest.raises(StudyError, match=r"rows.jsonl' changed while it was being read; run the command again"):
        load(path)
    assert not list((tmp_path / "cache" / "texts").glob("*/sha256"))


@pytest.mark.parametrize(
    "line", ['{"body": "x"}', "[1]", "no json", '{"text": 5}', '{"text": ["a", "b"]}', '{"text": {"a": "b"}}']
)
def test_rows_without_a_text_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "fine"}\n' + line)
    with pytest.raises(StudyError, match=r"line 2 is not an object with a string 'text'; write one object per"):
        load(path)


def test_a_row_that_utf8_cannot_encode_is_read_with_replacements(tmp_path: Path) -> None:
    """Half of a surrogate pair, as crawled pages have; blank lines and the case of the suffix do not matter."""
    path = tmp_path / "rows.JSONL"
    path.write_text('{"text": "before \\ud83d after"}\n\n')
    text = load(path)
    assert bytes(torch.cat((text.train, text.validation)).tolist()) == b"before ? after"


@pytest.mark.parametrize(
    ("column", "rows"), [("text", [1, 2]), ("text", [b"a", b"b"]), ("text", [["a"], ["b"]]), ("body", ROWS)]
)
def test_a_table_without_texts_is_refused(column: str, rows: list[object], tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", rows, column)
    with pytest.raises(StudyError, match="not a parquet table with a column 'text' of strings"):
        load(path)


def test_tokens_of_byte_pairs_are_kept_and_small(tmp_path: Path) -> None:
    path = folder(tmp_path / "texts")
    text = Source(text=path, tokenizer="bpe", vocabulary=260).load()
    assert text.train.dtype == torch.uint16
    (kept,) = (tmp_path / "cache" / "texts").glob("*/sha256")
    assert kept.read_text() == text.sha256
    with pytest.raises(StudyError, match="use bytes, bpe, or the path of a tokenizer"):
        Source(text=path, tokenizer=str(tmp_path / "none.json")).load()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file in the folder's place")
    assert load().sha256.startswith("c72cd6fa")
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "full"))
    monkeypatch.setattr(
        text_module, "spooled", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(StudyError, match=r"No space left on device\); free some space, or set POSENC_CACHE"):
        load()


def test_a_user_without_a_home_folder_reads_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in the password file."""
    for name in ("POSENC_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    monkeypatch.chdir(tmp_path)
    assert load().sha256.startswith("c72cd6fa")
    assert list(tmp_path.iterdir()) == []


def cut(path: Path, slow: float, cuts) -> None:
    """Read a text in a process of its own, slowly; count its tokenisations."""
    plain = Bytes.encode

    def encode(self, each):
        with cuts.get_lock():
            cuts.value += 1
        time.sleep(slow)
        return plain(self, each)

    Bytes.encode = encode  # type: ignore[method-assign]
    load(path)


def test_processes_that_come_at_once_cut_it_once_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    context = mp.get_context("fork")
    path, cuts = folder(tmp_path / "texts"), context.Value("i", 0)
    killed = context.Process(target=cut, args=(path, 60.0, cuts))
    killed.start()
    while not cuts.value:
        time.sleep(0.01)
    assert killed.pid
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    home = tmp_path / "cache" / "texts"
    assert list(home.glob("*.partial"))
    assert not list(home.glob("*/sha256"))
    cuts.value = 0
    processes = [context.Process(target=cut, args=(path, 0.05, cuts)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert cuts.value == 2  # training and validation
    assert not list(home.glob("*.partial"))
    assert bytes(load(path).train.tolist()) == drawn(ENCODED, [f"{i}.txt" for i in range(50)])[0]


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what is anonymous")


def peak_of(source: Source) -> tuple[Text, int]:
    """A text, and how many bytes of anonymous memory more than before were taken at most while it was read."""
    before = peak = anonymous()
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.002):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    text = source.load()
    over.set()
    watcher.join()
    return text, peak - before


@needs_proc
def test_anonymous_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Rows of 64 MB take less than 16 MB: nothing holds all of them, and what is open is mapped."""
    row = json.dumps({"text": "It was a dark and stormy night, and the rain fell.\n" * 200}) + "\n"
    path = tmp_path / "rows.jsonl"
    path.write_text(row * 6400)
    load()  # what is imported is imported
    text, peak = peak_of(Source(text=path))
    assert len(text.train) + len(text.validation) == 6400 * 10_200 + 2 * (6400 - 2)  # and what is between
    assert peak < 16e6


def test_a_text_reaches_another_machine_with_tokens_of_any_width(tmp_path: Path) -> None:
    """Ray pickles it; torch's own pickle of 16 unsigned bits cannot be read."""
    pytest.importorskip("tokenizers")
    for source in (
        Source(text=folder(tmp_path / "texts")),
        Source(text=tmp_path / "texts", tokenizer="bpe", vocabulary=300),
    ):
        text = source.load()
        arrived = pickle.loads(pickle.dumps(text))
        for part in ("train", "validation"):
            tokens = getattr(text, part)
            assert getattr(arrived, part).dtype == tokens.dtype == text.tokens.dtype
            assert getattr(arrived, part).tolist() == tokens.tolist()
        assert (arrived.sha256, arrived.tokens.name) == (text.sha256, text.tokens.name)


@pytest.mark.slow
@needs_proc
def test_a_tokenizer_is_trained_and_cuts_in_bounded_memory(tmp_path: Path) -> None:
    """Byte pairs of 16 MB of ever new words take less than 250 MB: pieces of 1 MB would take 390 MB."""
    pytest.importorskip("tokenizers")
    draw = random.Random(0)
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{draw.randbytes(5).hex()}{' ' if at % 9 else chr(10)}" for at in range(1_500_000)))
    load()
    text, peak = peak_of(Source(text=path, tokenizer="bpe", vocabulary=512))
    assert len(text.train) > 4e6
    assert peak < 250e6
