"""The small transformer: it sees what it should, for every encoding of the catalogue."""

import pytest
import torch

import posenc
from posenc.errors import InvalidArgument
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer, draw_parameters

GROUPED = Model(width=16, heads=4, kv_heads=2, norm="rms", activation="swiglu", biases=False, tied=True)


@pytest.mark.parametrize("name", list(posenc.CATALOGUE))
def test_what_is_generated_leaves_earlier_outputs_as_they_were(name: str) -> None:
    encoding = posenc.encoding(name, width=16, heads=4, head_dim=4, num_positions=24)
    model = Transformer(GROUPED, encoding, 11).initialise(0)
    prompt = torch.randint(11, (2, 4), generator=torch.Generator().manual_seed(1))
    tokens = model.generate(prompt, 5)
    outputs = model(tokens)
    assert torch.equal(tokens[:, :4], prompt)
    assert torch.equal(outputs[:, 3:-1].argmax(-1), tokens[:, 4:])
    torch.testing.assert_close(outputs[:, :4], model(prompt))


def test_a_bidirectional_model_sees_both_sides_and_does_not_generate() -> None:
    model = Transformer(Model(width=16), posenc.NoPE(), 11, causal=False).initialise(0)
    tokens = torch.arange(5)[None]
    changed = tokens.clone()
    changed[0, -1] = 9
    assert not torch.equal(model(tokens)[0, 0], model(changed)[0, 0])
    with pytest.raises(InvalidArgument, match="causal=True"):
        model.generate(tokens, 2)


def test_drawing_parameters_asks_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch warns where it would keep the random numbers of many."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    draw_parameters(posenc.encoding("learned", width=8, num_positions=4), 0)
