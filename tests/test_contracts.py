"""Every law over the catalogue and its variants."""

import pytest

from cases import BREADTH, CASES, Case
from contracts import HERE
from posenc.kernels.attention import blocks
from posenc.laws import Law, paths

TIERS = [pytest.param(case, marks=[pytest.mark.slow] if str(case) in BREADTH else []) for case in CASES]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", TIERS, ids=str)
@pytest.mark.parametrize("law", HERE, ids=str)
def test_law(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    law(case)


def test_breadth_names_cases() -> None:
    assert {str(case) for case in CASES} >= BREADTH


def test_long_sequences_meet_several_blocks() -> None:
    assert max(2 * blocks.ROWS, blocks.TRAINING_ROWS) < paths.LONG


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", [paths.paths_are_scores, paths.gradients_are_those_of_scores], ids=str)
def test_law_in_blocks_of_their_own_size(law: Law, case: Case) -> None:
    law(case)
