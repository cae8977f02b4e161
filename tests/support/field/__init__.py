"""The field's cases: threads, pages and files of other projects that posenc was asked about, and what it owes them.

The tests are generated from ``CASES``, and ``python -m tools.field`` replays them.
"""

from support.field import doctor, programs, reader, right
from support.field.case import Case

CASES: tuple[Case, ...] = (*right.CASES, *reader.CASES, *programs.CASES, *doctor.CASES)
