"""Every law over the catalogue and its variants."""

import os
from operator import attrgetter

import pytest

from posenc.attend import blocks
from posenc.laws import Law, paths
from support.cases import BREADTH, CASES, TIERS, Case
from support.checking import annotations_unchecked
from support.contracts import HERE
from support.processes import python

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


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("POSENC_ANNOTATIONS") != "checked", reason="make slow sets POSENC_ANNOTATIONS")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", [law for law in HERE if law.name in ANNOTATED], ids=attrgetter("name"))
def test_annotations_hold(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    law(case)


@pytest.mark.long
def test_annotations_hold_for_an_encoding_of_each_way_of_acting() -> None:
    """In a process of its own, because the library is then imported with checks."""
    cases = [f"{__file__}::test_annotations_hold[{law}-{case}]" for law in ANNOTATED for case in FEW]
    said = python("-m", "pytest", "-n", "0", "-v", "-m", "slow", *cases, POSENC_ANNOTATIONS="checked")
    assert f"{len(cases)} passed in" in said, said


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
