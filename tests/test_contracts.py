"""Every law over the catalogue and its variants."""

import pytest

from cases import CASES, Case
from contracts import HERE
from posenc.kernels.attention import blocks
from posenc.laws import Law, paths


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", HERE, ids=str)
def test_law(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    law(case)


def test_long_sequences_meet_several_blocks() -> None:
    assert max(2 * blocks.ROWS, blocks.TRAINING_ROWS) < paths.LONG


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", [paths.paths_are_scores, paths.gradients_are_those_of_scores], ids=str)
def test_law_in_blocks_of_their_own_size(law: Law, case: Case) -> None:
    law(case)
