"""Every mutant is rejected by the law it breaks, so no law is there for show."""

from operator import attrgetter

import pytest

from posenc.laws import Broken, Law
from support import mode_mutants, mutants
from support.contracts import HERE, LAWS
from support.mutants import TRACED, WHOLE, Mutant

pytestmark = pytest.mark.usefixtures("small_blocks")
MUTANTS = [*mutants.MUTANTS, *mode_mutants.MUTANTS]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_its_law_rejects_it(mutant: Mutant) -> None:
    assert not mutant.law.why_not(mutant.case)
    with pytest.raises(Broken) as broken:
        mutant.law(mutant.case)
    assert "shape" not in str(broken.value), "rejected for its shape, not for its mistake"


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("law", HERE, ids=attrgetter("name"))
def test_what_the_mutants_break_was_whole(law: Law, name: str) -> None:
    """Unbroken, what mutants start from passes: it is the mistake that is rejected."""
    case = WHOLE[name].case
    if name == "alibi" and law.name in ("survives_copies", "placings_survive_copies"):
        return  # its formula is a lambda
    if not law.why_not(case):
        law(case)


def test_every_law_rejects_something() -> None:
    assert {law.name for law in LAWS} == {mutant.law.name for mutant in (*MUTANTS, *TRACED)}
