"""The page of checkpoints × programs is what is computed."""

import pytest
import transformers
from tools.matrix import CHECKPOINTS, PAGE, page


@pytest.mark.slow
@pytest.mark.skipif(not transformers.__version__.startswith("5.23."), reason="the page is of transformers 5.23")
def test_the_page_is_what_is_computed() -> None:
    assert len(CHECKPOINTS.split()) == 30
    assert page() == PAGE.read_text("utf-8"), "run python -m tools.matrix"
