"""Every law over the catalogue and its variants."""

from contextlib import nullcontext

import pytest

from posenc.attend import blocks
from posenc.laws import Law, paths
from support.cases import BREADTH, CASES, Case
from support.checking import annotations_unchecked
from support.contracts import HERE

TIERS = [pytest.param(case, marks=[pytest.mark.slow] if str(case) in BREADTH else []) for case in CASES]

ANNOTATED = {"follows_its_formula", "whole_is_pieces", "paths_are_scores"}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", TIERS, ids=str)
@pytest.mark.parametrize("law", HERE, ids=str)
def test_law(law: Law, case: Case) -> None:
    if why_not := law.why_not(case):
        pytest.skip(why_not)
    # Laws share their calls: annotations are checked where every door is opened and every shape passes.
    with nullcontext() if law.name in ANNOTATED else annotations_unchecked():
        law(case)


def test_names_are_of_laws_and_cases() -> None:
    assert {law.name for law in HERE} >= ANNOTATED
    assert {str(case) for case in CASES} >= BREADTH


def test_long_sequences_meet_several_blocks() -> None:
    assert max(2 * blocks.ROWS, blocks.TRAINING_ROWS) < paths.LONG


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", [paths.paths_are_scores, paths.gradients_are_those_of_scores], ids=str)
def test_law_in_blocks_of_their_own_size(law: Law, case: Case) -> None:
    law(case)
