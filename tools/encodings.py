"""Prints the table of all encodings, or writes it between the marks of pages: ``tools/encodings.py FILE…``.

The marks are ``<!-- encodings -->`` and ``<!-- /encodings -->``, each on a line of its own.
"""

import re
import sys
import tomllib
from pathlib import Path

from posenc.teaching.claims.encodings import table

SHIPPED = Path(__file__).parents[1] / "docs" / "shipped.toml"
BETWEEN = re.compile(r"(<!-- encodings -->\n).*?(<!-- /encodings -->)", re.DOTALL)


def main(pages: list[str]) -> int:
    made = table(tomllib.loads(SHIPPED.read_text(encoding="utf-8")))
    if not pages:
        print(made, end="")
    for page in map(Path, pages):
        text = page.read_text(encoding="utf-8")
        written, count = BETWEEN.subn(lambda marks: f"{marks[1]}\n{made}\n{marks[2]}", text)
        if count != 1:
            print(f"{page} has {count} places between <!-- encodings --> and <!-- /encodings -->; give it one")
            return 1
        page.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
