"""Every bias of the scores trains, as do learned rotations and scales: a small model learns which token came two
before, which needs positions."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

import posenc
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer

VOCABULARY, LENGTH, BACK = 6, 16, 2
SOME = ("cope(positions=8)",)
OTHERS = (
    "fire",
    "kerple",
    "kerple(kernel=power)",
    "shaw(behind=8, ahead=0)",
    "inkling(extent=8, basis=4)",
    "transformer-xl",
    "deberta(buckets=8, max_distance=16)",
    "window(size=(16, 16))",
    "layoutlm",
)


@pytest.mark.parametrize("text", [*SOME, *(pytest.param(text, marks=pytest.mark.slow) for text in OTHERS)])
def test_a_models_loss_falls(text: str) -> None:
    """Below two thirds of chance, and every parameter of the encoding has moved."""
    encoding = posenc.encoding(text, width=32, heads=4, head_dim=8, layers=1)
    model = Transformer(Model(width=32, layers=1, heads=4), encoding, VOCABULARY).initialise(0)
    before = {name: p.detach().clone() for name, p in model.encoding.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator, losses = torch.Generator().manual_seed(0), []
    for _ in range(120):
        tokens = torch.randint(VOCABULARY, (16, LENGTH), generator=generator)
        loss = cross_entropy(model(tokens)[:, BACK:].flatten(0, 1), tokens[:, :-BACK].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) / 10 < math.log(VOCABULARY) * 2 / 3
    still = [n for n, p in model.encoding.named_parameters() if torch.equal(p, before[n])]
    assert all(name.endswith(".m") for name in still), "FIRE's m waits for positions beyond it"


@pytest.mark.parametrize(
    "text", ["fope(groups=2)", "rotary-learned(groups=2, shared=False)", "pope(start=uniform)", "ssmax(length=64)"]
)
def test_a_model_trains_every_parameter_of_its_rotation_or_scale(text: str) -> None:
    encoding = posenc.encoding(text, width=32, heads=4, head_dim=8, num_positions=64, layers=2)
    model = Transformer(Model(width=32, layers=2, heads=4), encoding, 17).initialise(0)
    model(torch.randint(17, (2, 12))).square().sum().backward()
    for parameter in model.encoding.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()
