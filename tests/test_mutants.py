"""Every mutant is rejected by the law it breaks, so no law is there for show."""

import pytest

import mode_mutants
import mutants
from contracts import LAWS
from mutants import HALF, SLOPES, BrokenALiBi, BrokenRotary, Mutant

MUTANTS = mutants.MUTANTS + mode_mutants.MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_its_law_rejects_it(mutant: Mutant) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, RuntimeError, AttributeError)) as broken:
        mutant.law(mutant.case)
    assert "must agree" not in str(broken.value), "rejected for its shape, not for its mistake"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_what_the_mutants_break_was_whole(law) -> None:
    """Unbroken, the rotary and the ALiBi that mutants start from pass: it is the mistake that is rejected."""
    law(Mutant("rotary", BrokenRotary, law, HALF, lambda: BrokenRotary(5e5)).case)
    if law.__name__ != "survives_pickle":
        law(Mutant("alibi", lambda: BrokenALiBi(lambda m, o: -m * o.abs()), law, SLOPES).case)


def test_every_law_rejects_something() -> None:
    export = {"survives_export"}  # held by compiling.py's own checks
    assert {law.__name__ for law in LAWS} - {mutant.law.__name__ for mutant in MUTANTS} <= export
