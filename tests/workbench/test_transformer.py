"""The small transformer: it sees what it should, for every encoding of the catalogue."""

import pytest
import torch

import posenc
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer, draw_parameters

GROUPED = Model(width=16, heads=4, kv_heads=2, norm="rms", activation="swiglu", biases=False, tied=True)


@pytest.mark.parametrize("name", list(posenc.CATALOGUE))
def test_later_tokens_leave_earlier_outputs_as_they_were(name: str) -> None:
    encoding = posenc.encoding(name, width=16, heads=4, head_dim=4, num_positions=24)
    model = Transformer(GROUPED, encoding, 11).initialise(0)
    tokens = torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(tokens)[:, :4], model(tokens[:, :4]))


def test_drawing_parameters_asks_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch warns where it would keep the random numbers of many."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    draw_parameters(posenc.encoding("learned", width=8, num_positions=4), 0)
