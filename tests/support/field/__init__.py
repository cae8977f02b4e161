"""Cases from threads, pages and files of other projects, with the answers that posenc must give.

``tests/integrations/test_field.py`` has a test for every case in ``CASES``.
"""

from support.field import doctor, programs, reader, right
from support.field.case import Case

CASES: tuple[Case, ...] = (*right.CASES, *reader.CASES, *programs.CASES, *doctor.CASES)
