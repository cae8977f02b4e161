"""Every law over the catalogue and its variants."""

import pytest

from cases import CASES, Case
from contracts import HERE
from posenc.laws import Law


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", HERE, ids=str)
def test_law(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    law(case)
