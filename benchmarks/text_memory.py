"""The memory of a study on a large text: create the text, train on it, and print each process's anonymous memory.

``python -m benchmarks.text_memory --gigabytes 1 --tokenizer bpe``. The text consists of copies of another text; in
each copy, the letters of every eighth line are permuted, so that new words keep occurring. Anonymous memory is
only reported on Linux.
"""

import argparse
import json
import random
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.workbench.tasks.documents import DEFAULT, documents

FORMS = ("txt", "folder", "jsonl", "parquet")


def copies(text: str, size: int) -> Iterator[str]:
    """Yield differently changed copies of a text, with a total of ``size`` bytes."""
    lines, letters, draw, left = (
        text.splitlines(keepends=True),
        list(string.ascii_lowercase),
        random.Random(0),
        size,
    )
    while left > 0:
        draw.shuffle(letters)
        exchanged = str.maketrans(string.ascii_lowercase, "".join(letters))
        first = draw.randrange(8)
        copy = "".join(
            line.translate(exchanged) if number % 8 == first else line for number, line in enumerate(lines)
        )
        left -= len(copy.encode())
        yield copy


def paragraphs(text: str, size: int) -> Iterator[str]:
    """Yield documents: pieces of the copies with a few thousand characters each."""
    for copy in copies(text, size):
        yield from (copy[at : at + 4096] for at in range(0, len(copy), 4096))


def written(form: str, text: str, size: int, folder: Path) -> Path:
    """Write the text as a file, a folder of files, or rows, and return its path."""
    path = folder / ("texts" if form == "folder" else f"text.{form}")
    if form == "folder":
        path.mkdir()
        for number, copy in enumerate(copies(text, size)):
            (path / f"{number}.txt").write_text(copy)
    elif form == "parquet":
        import pyarrow
        from pyarrow import parquet

        with parquet.ParquetWriter(path, pyarrow.schema([("text", pyarrow.string())])) as table:
            for copy in copies(text, size):
                rows = [copy[at : at + 4096] for at in range(0, len(copy), 4096)]
                table.write_table(pyarrow.table({"text": rows}))
    else:
        with path.open("w") as out:
            for part in copies(text, size) if form == "txt" else paragraphs(text, size):
                out.write(part if form == "txt" else json.dumps({"text": part}) + "\n")
    return path


def peaks(command: list[str]) -> tuple[dict[str, int], float]:
    """Return the peak anonymous memory in bytes of each process of a command, and the time in seconds."""
    most: dict[str, int] = {}
    started = time.monotonic()
    with subprocess.Popen(command, start_new_session=True) as running:
        while running.poll() is None:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    session = int((process / "stat").read_text().rpartition(")")[2].split()[3])
                    if session == running.pid:
                        status = (process / "status").read_text().split("RssAnon:")[1].split()
                        name = (process / "cmdline").read_text().replace("\0", " ")[:60].strip()
                        key = f"{process.name} {name}"
                        most[key] = max(most.get(key, 0), int(status[0]) * 1024)
                except (OSError, IndexError):  # the process has ended in the meantime
                    continue
            time.sleep(0.02)
        if running.returncode:
            raise SystemExit(running.returncode)
    return most, time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_memory", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the text")
    parser.add_argument("--source", type=Path, default=DEFAULT, help="the text to copy; default posenc's own")
    parser.add_argument("--form", choices=FORMS, default="txt", help="how the text is stored")
    parser.add_argument("--tokenizer", default="bpe")
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--folder", type=Path, help="folder for the temporary text and study")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        text = "\n".join(b"".join(each).decode() for _, each in documents(options.source))
        path = written(options.form, text, round(options.gigabytes * 1e9), Path(folder))
        study = ["--tasks", "language", "--encodings", "rotary", "--steps", "50", "--workers", "1"]
        cut = f"--tokenizer {options.tokenizer} --vocabulary {options.vocabulary}"
        files = ["--text", str(path), "--output", f"{folder}/study"]
        most, seconds = peaks([sys.executable, "-m", "posenc", "compare", *study, *cut.split(), *files])
    for name, size in most.items():
        print(f"{size / 2**20:8.0f} MiB peak anonymous memory: {name}")
    print(f"{seconds:8.0f} s, {options.gigabytes:g} GB as {options.form}, {options.tokenizer}")


if __name__ == "__main__":
    main()
