"""The contact sheet names what is wrong with a screen, and takes every stage."""

from typing import Any

import pytest
from tools.contact_sheet import FAULTS, sheet, visits

from posenc.teaching.lab import rooms
from support.photographs import serving
from tools import contact_sheet


def test_every_stage_is_taken() -> None:
    assert [stage for _, stage in contact_sheet.stages() if stage] == list(rooms.stages())
    assert contact_sheet.stages("slopes") == [("bias", "slopes")]
    assert 'src="bias-slopes-dark-phone.png"' in sheet(["bias-slopes"], "dark", "phone")


@pytest.mark.slow
@pytest.mark.browser
def test_a_sound_stage_has_no_faults(browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    with serving() as address:
        assert list(visits(page, address, "slopes")) == [("bias-slopes", [])]
    page.close()


@pytest.mark.browser
def test_faults_are_named(browser: Any) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 500})
    page.set_content(
        "<h1 style='width:40px;overflow:hidden;white-space:nowrap'>Extraordinary</h1><p style='width:450px'>.</p>"
        "<div class='stage current'><p style='height:400px'></p><div class='panel'>here</div>"
        "<p class='error'>m is no number</p></div>"
    )
    wide, cut, low, error = page.evaluate(FAULTS)
    page.set_content("<div class='stage current'></div>")
    assert page.evaluate(FAULTS) == ["no picture"]
    page.close()
    assert wide.endswith("too wide")
    assert cut == "cut off: Extraordinary"
    assert low == "the picture begins below the first screen"
    assert error == "m is no number"
