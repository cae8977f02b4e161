"""The field's cases: threads, pages and files of other projects that posenc was asked about, and what it owes them.

``tests/integrations/test_field.py`` has a test for each of ``CASES``.
"""

from support.field import doctor, programs, reader, right
from support.field.case import Case

CASES: tuple[Case, ...] = (*right.CASES, *reader.CASES, *programs.CASES, *doctor.CASES)
