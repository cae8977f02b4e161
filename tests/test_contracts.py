"""Every law over the catalogue and its variants."""

import pytest

from cases import CASES, Case
from contracts import HERE
from posenc.laws import Law, paths


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", HERE, ids=str)
def test_law(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    law(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", [paths.paths_are_scores, paths.gradients_are_those_of_scores], ids=str)
def test_law_in_blocks_of_their_own_size(law: Law, case: Case) -> None:
    law(case)
