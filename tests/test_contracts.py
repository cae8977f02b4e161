"""Every law over the catalogue and its variants."""

import pytest

from cases import CASES, Case
from contracts import LAWS, Law


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Law, case: Case) -> None:
    law(case)
