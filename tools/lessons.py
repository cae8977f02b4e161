"""Writes the pages that the lessons' data make: ``tools/lessons.py FOLDER`` writes them there."""

import sys
from pathlib import Path

from posenc.teaching.lessons.pages import index_page, questions_page

PAGES = {"lessons.md": index_page, "questions.md": questions_page}


def main(folder: str) -> None:
    for name, made in PAGES.items():
        (Path(folder) / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
