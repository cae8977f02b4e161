"""Verdicts of an extension are as seldom wrong as they say."""

from dataclasses import replace

import pytest
import torch

from posenc.workbench.extend.curves import Extension
from posenc.workbench.extend.verdict import ERROR, MARGIN, judge
from support.extensions import made

NAMES = ("none", "linear", "ntk", "dynamic", "yarn", "yarn-paper", "llama3")


def drawn(seed: int, documents: int, truth: list[float], noise: float) -> Extension:
    """What a study with these true losses far out may measure."""
    generator = torch.Generator().manual_seed(seed)
    flat = made(**{name: [2.0] * 6 for name in NAMES[: len(truth)]}, window=[2.0])
    own = torch.randn(documents, 1, generator=generator, dtype=torch.float64)  # which pairs cancel
    curves = []
    for curve, loss in zip(flat.curves, truth, strict=True):
        spread = noise * torch.randn(documents, 1, generator=generator, dtype=torch.float64)
        curves.append(replace(curve, losses=(own + loss + spread).expand(-1, 6)))
    return replace(flat, curves=tuple(curves), window=own[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "methods", "noise"),
    [
        *((n, 2 + n % 3, 0.05) for n in range(2, 13)),
        (2, 7, 0.05),
        (8, 7, 0.02),
        (8, 7, 0.2),
        (16, 2, 0.02),
        (16, 3, 0.2),
    ],
)
def test_at_most_5_of_100_verdicts_are_wrong(documents: int, methods: int, noise: float) -> None:
    """Methods that are equal, and ones that are worse by exactly the margin."""
    draws = 1000
    for truth in ([0.0] * methods, [0.0] + [MARGIN] * (methods - 1)):
        wrong = 0
        for seed in range(draws):
            best, *others = judge(drawn(seed, documents, truth, noise)).scores
            least = truth[NAMES.index(best.curve.method.name)]
            for score in others:
                more = truth[NAMES.index(score.curve.method.name)] - least
                wrong += {"worse": more <= 0, "as good": more >= MARGIN}.get(score.standing, False)
        assert wrong <= ERROR * draws * (methods - 1), truth


@pytest.mark.slow
@pytest.mark.parametrize("methods", [2, 7])
def test_three_margins_are_seen_with_eight_documents(methods: int) -> None:
    """With a spread of one margin from document to document, in at least 90 of 100 draws."""
    truth, worse = [0.0] + [3 * MARGIN] * (methods - 1), 0
    for seed in range(1000):
        scores = judge(drawn(seed, 8, truth, MARGIN / 2**0.5)).scores
        worse += sum(score.standing == "worse" for score in scores)
    assert worse >= 0.9 * 1000 * (methods - 1)
