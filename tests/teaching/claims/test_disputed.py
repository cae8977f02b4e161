"""What lessons dispute is decided by intervals over seeds; the sentences' own numbers give the verdicts."""

import math
from dataclasses import replace

import pytest
import torch

from posenc.teaching.claims import disputed
from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.claims.claim import run

NAMES = ("rope-extrapolates-better", "learned-inside-its-range", "trained-short-tested-long")
SPREAD = (-0.02, -0.01, 0.0, 0.01, 0.02)
AS_TOLD = {
    ("rotary", 128): {128: 1.6, 256: 2.6, 1024: 3.74},
    ("sinusoidal", 128): {128: 2.0, 256: 3.37, 1024: 3.45},
    ("learned(past_end=clamp)", 128): {128: 2.41, 256: 2.5, 1024: 2.61},
    ("alibi", 128): {128: 1.77, 256: 1.77, 1024: 1.77},
    ("sinusoidal", 256): {128: 2.1, 256: 2.33, 1024: 3.4},
}
"""Means that differ as the sentences say."""


@pytest.mark.parametrize("as_told", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_stands_on_the_numbers_of_its_sentence_alone(
    name: str, as_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losses(encoding: str, trained: int = 128) -> dict[int, torch.Tensor]:
        means = AS_TOLD[encoding, trained]
        return {n: (mean if as_told else 2.0) + torch.tensor(SPREAD) for n, mean in means.items()}

    assert CLAIMS[name].slow
    monkeypatch.setattr(disputed, "losses", losses)
    assert run(CLAIMS[name]).stands is as_told


def test_all_models_are_trained_on_as_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    train_and_test = disputed.train_and_test
    monkeypatch.setattr(disputed, "PLAN", replace(disputed.PLAN, steps=1, test_count=1, lengths=(128, 256)))
    monkeypatch.setattr(disputed, "SEEDS", range(2))
    monkeypatch.setattr(
        disputed, "train_and_test", lambda plan, text: plans.append(plan) or train_and_test(plan, text)
    )
    for trained in (128, 256):
        losses = disputed.losses.__wrapped__("alibi", trained)
        assert losses.keys() == {128, 256}
        assert all(len(values) == 2 and all(map(math.isfinite, values)) for values in losses.values())
    assert [(plan.train_length, plan.batch, plan.seed) for plan in plans] == [
        (128, 16, 0),
        (128, 16, 1),
        (256, 8, 0),
        (256, 8, 1),
    ]
