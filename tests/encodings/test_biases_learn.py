"""Every trained number of a bias, a rotation or a scale gets a gradient in a model."""

import pytest
import torch

import posenc
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer


@pytest.mark.parametrize(
    "text",
    [
        "cope(positions=8)",
        "fire",
        "kerple",
        "kerple(kernel=power)",
        "shaw(behind=8, ahead=0)",
        "inkling(extent=8, basis=4)",
        "transformer-xl",
        "deberta(buckets=8, max_distance=16)",
        "window(size=(16, 16))",
        "layoutlm",
        "fope(groups=2)",
        "rotary-learned(groups=2, shared=False)",
        "pope(start=uniform)",
        "ssmax(length=64)",
    ],
)
def test_a_model_trains_every_parameter_of_its_encoding(text: str) -> None:
    """FIRE's m waits for positions beyond it."""
    encoding = posenc.encoding(text, width=32, heads=4, head_dim=8, num_positions=64, layers=2)
    model = Transformer(Model(width=32, layers=2, heads=4), encoding, 17).initialise(0)
    model(torch.randint(17, (2, 12))).square().sum().backward()
    for name, parameter in model.encoding.named_parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any() or name.endswith(".m"), name
