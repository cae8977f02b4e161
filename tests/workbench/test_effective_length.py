"""How far a method reads as well as the model does, with an interval that holds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.workbench.report.extension import lengths, write
from support.extensions import made

FOUND = made(
    none=[2.5, 2, 3, 5, 7, 7],
    linear=[2.6, 2.1, 2.01, 2.01, 2.01, 2.01],
    ntk=[2.52, 2.03, 2.04, 2.04, 4, 2],
    yarn=[2.52, 2.03, 1.9, 2.04, 2.04, 2.04],
    window=[2.5],
)


def of(name: str) -> tuple[int, int, int]:
    length = FOUND.effective_length(next(c for c in FOUND.curves if c.method.name == name))
    return length.low, length.tokens, length.high


def test_past_the_trained_length_the_models_own_loss_at_it_is_the_measure() -> None:
    assert {name: of(name) for name in ("none", "yarn", "linear", "ntk")} == {
        "none": (16, 16, 16),
        "yarn": (48, 48, 48),  # earlier buckets lose more by themselves, and each is measured by its own
        "linear": (0, 0, 48),  # it pays too much within, and the end is no worse than the model's own
        "ntk": (32, 32, 48),  # the last bucket is within the margin again: the end is not surely past it
    }


def test_the_first_sentence_and_the_file_have_the_length(tmp_path: Path) -> None:
    assert lengths(FOUND) == (
        "Effective length in tokens (loss within 0.05 nats of the unchanged model's at 16): at least 48 with YaRN; "
        "16 with no scaling. Each length has its own targets, so easier or harder text can shift the result "
        "within its interval."
    )
    few = replace(
        FOUND, curves=tuple(replace(c, losses=c.losses[:2]) for c in FOUND.curves), window=FOUND.window[:2]
    )
    assert lengths(few).endswith(
        "undecided with YaRN; undecided with no scaling. At least 3 documents are needed; use a larger --documents."
    )
    assert "undecided with no scaling" in write(few, tmp_path, "posenc extend x", None).read_text()
    write(FOUND, tmp_path, "posenc extend x", None)
    read = json.loads((tmp_path / "extension.json").read_text())
    assert read["use"] == "yarn"
    lengths_read = {candidate["name"]: candidate["effective_length"] for candidate in read["candidates"]}
    assert lengths_read["cut"] is None
    assert lengths_read["ntk"] == {
        "tokens": 32,
        "at_least": False,
        "interval": [32, 48],
        "undecided": False,
    }


@pytest.mark.parametrize("documents", [3, 8])
def test_the_interval_holds_in_95_of_100_draws(documents: int) -> None:
    """A method that passes the margin after 32 tokens, on 400 sets of documents drawn at random."""
    generator, wrong = torch.Generator().manual_seed(documents), 0
    truth = torch.tensor([0, 0, 0.049, 0.049, 0.051, 0.2], dtype=torch.float64)
    plain = next(c for c in FOUND.curves if c.method.name == "none")
    for _ in range(400):
        own = torch.randn(documents, 1, generator=generator, dtype=torch.float64).expand(-1, 6)
        noise = 0.1 * torch.randn(documents, 6, generator=generator, dtype=torch.float64)
        curves = replace(plain, losses=own), replace(FOUND.curves[1], losses=own + truth + noise)
        length = replace(FOUND, curves=curves).effective_length(curves[1])
        wrong += not length.low <= 32 <= length.high
    assert wrong <= 20 + 3 * 20**0.5
