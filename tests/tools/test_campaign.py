"""The campaign finds nothing in the library as it is, and each planted fault in its area."""

import pytest
import torch
from tools.campaign.areas import AREAS
from tools.campaign.faults import FAULTS

QUICK = {"attention": 8, "rotation": 10, "text": 40, "laws": 20}
"""Cases of every run of the tests."""
SLOW = {"attention": 1500, "rotation": 1500, "laws": 1500, "text": 800}
MINUTES = 2
"""In which every fault must be caught."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("area", "cases"),
    [*QUICK.items(), *(pytest.param(area, cases, marks=pytest.mark.slow) for area, cases in SLOW.items())],
)
def test_drawn_cases_find_nothing(area: str, cases: int) -> None:
    assert not [finding for finding in AREAS[area].run(seed=0, cases=cases) if finding]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if fault.quick else pytest.mark.slow) for name, fault in FAULTS.items()],
)
def test_a_planted_fault_is_caught(name: str) -> None:
    fault = FAULTS[name]
    with fault.plant():
        assert any(AREAS[fault.area].run(0, cases=fault.cases, minutes=MINUTES))


def test_every_area_has_faults_and_a_case_repeats() -> None:
    assert {fault.area for fault in FAULTS.values()} == set(AREAS)
    assert len(FAULTS) >= 15
    for area in AREAS.values():
        assert area.case(3, 5) == area.case(3, 5) != area.case(3, 6)


def test_a_finding_says_how_to_repeat_it() -> None:
    fault = FAULTS["ALiBi rewards distance"]
    with fault.plant():
        number, finding = next(found for found in enumerate(AREAS["attention"].run(0)) if found[1])
    assert str(finding).startswith(f"python -m tools.campaign attention --seed 0 --only {number}\n")
