"""The plain loop that the trainer is measured against computes the same model."""

import torch
from benchmarks.trainer import PLAN, forward

from posenc.workbench.run.training import build
from posenc.workbench.tasks import task
from support.studies import python_text


@torch.no_grad()
def test_the_plain_loop_has_the_same_outputs() -> None:
    model = build(PLAN, task("language", python_text(), 256, 256))
    tokens = torch.arange(32)[None]
    torch.testing.assert_close(forward(model, tokens), model(tokens), rtol=1e-5, atol=1e-5)
