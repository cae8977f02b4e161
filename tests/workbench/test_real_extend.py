"""extend on SmolLM2-135M: past its 8192 trained tokens the unscaled model fails where YaRN reads on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from posenc.scaling import Default
from posenc.workbench.extension.measure import Request, measure
from posenc.workbench.extension.methods import methods
from posenc.workbench.extension.models import open_model
from posenc.workbench.run.job import in_process
from posenc.workbench.run.ledger import Ledger


@pytest.mark.real
def test_yarn_reads_on_where_the_unscaled_model_fails(
    smollm: Path, shared_data: Path, tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    """One document of 12 288 tokens; its end lies between 10k and 12k."""
    model, data, text = open_model(smollm, shared_data / "wikitext2-valid.txt", "cpu", "float32")
    assert (model.original_length, model.scaling) == (8192, Default())
    chosen = methods(("none", "yarn"), model.scaling, 8192, 1.5)
    found = measure(model, data, text, Request(12_288, 1, chosen), ledgers(tmp_path), in_process)
    curves = {c.method.name: c.losses[0] for c in found.curves}
    in_context = float(found.window[0, -1])  # the same targets, read with the trained length of context
    assert float(curves["none"][-1]) > in_context + 0.3
    assert float(curves["yarn"][-1]) < in_context + 0.1
    assert (found.decided, found.candidates[-1].method.name) == (False, "none")  # one document decides nothing
