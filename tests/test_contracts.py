"""Every law over the catalogue and its variants."""

from operator import attrgetter

import pytest

from posenc.attend import blocks
from posenc.laws import Law, paths
from support.cases import BREADTH, CASES, TIERS, Case
from support.checking import annotations_unchecked
from support.contracts import HERE

ANNOTATED = {"whole_is_pieces", "paths_are_scores"}
"""Between them they open every door and pass every shape."""


FEW = {"sinusoidal", "rotary", "t5", "shaw", "fox", "cope"}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", TIERS, ids=str)
@pytest.mark.parametrize("law", HERE, ids=attrgetter("name"))
def test_law(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    with annotations_unchecked():
        law(case)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[] if str(c) in FEW else [pytest.mark.slow]) for c in CASES], ids=str
)
@pytest.mark.parametrize("law", [law for law in HERE if law.name in ANNOTATED], ids=attrgetter("name"))
def test_annotations_hold(law: Law, case: Case) -> None:
    """Checking takes longer than the law: by default for a case of each way in which an encoding acts."""
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    law(case)


def test_names_are_of_laws_and_cases() -> None:
    assert {law.name for law in HERE} >= ANNOTATED
    assert {str(case) for case in CASES} >= BREADTH | FEW


def test_long_sequences_meet_several_blocks() -> None:
    """And half as many again with gradients."""
    assert max(2 * blocks.ROWS, blocks.TRAINING_ROWS) < paths.SEVERAL_BLOCKS


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(
    "law", [paths.paths_are_scores, paths.gradients_are_those_of_scores], ids=attrgetter("name")
)
def test_law_in_blocks_of_their_own_size(law: Law, case: Case) -> None:
    law(case)
