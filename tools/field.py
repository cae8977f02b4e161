"""Replays the field's cases: ``python -m tools.field [ID …]`` from the root of a checkout, such as F33 or F5.

Prints how each is answered against what was written down from the case, the answer where it is not the right one,
and a tally. The cases are those of tests/integrations/test_field.py.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VERDICTS = ("answered", "refused", "wrong", "silent")


def replay(cases: Iterable[Any]) -> None:
    """Ask all of them, and print."""
    tally: Counter[str] = Counter()
    for case in cases:
        try:
            answer = case.answer()
            verdict = case.verdict(answer)
        except Exception as error:  # an answer that is a traceback is a wrong one
            answer, verdict = f"{type(error).__name__}: {error}", "wrong"
        tally[verdict] += 1
        print(f"{case.id}: {verdict}{f' ({case.until})' if case.until else ''}")
        if verdict != "answered":
            print(*(f"    {line}" for line in answer.splitlines()), sep="\n")
    print(", ".join(f"{tally[verdict]} {verdict}" for verdict in VERDICTS))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.field import CASES  # type: ignore[import-not-found]

    replay([case for case in CASES if case.id.startswith(tuple(sys.argv[1:] or [""]))])
