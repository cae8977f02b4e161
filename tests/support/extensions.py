"""Invented losses of an extension, for tests of the decision, and arguments for ``posenc extend``."""

from pathlib import Path

import torch

from posenc.scaling import Default
from posenc.workbench.extension.decision import Candidate, Extension
from posenc.workbench.extension.methods import methods
from posenc.workbench.tasks.text import Text

TEXT = Text("text", "0" * 64, torch.zeros(0, dtype=torch.uint8), torch.zeros(0, dtype=torch.uint8))


def made(**means: list[float]) -> Extension:
    """Return an extension of four documents with these losses in two buckets of trained length and four later."""
    noise = torch.linspace(-0.4, 0.4, 4, dtype=torch.float64)[:, None]  # the spread of documents in all curves
    layer = methods(("none", *(m for m in means if m not in ("none", "window"))), Default(), 16, 3.0)
    curves = tuple(
        Candidate(m, torch.tensor(means[m.name], dtype=torch.float64) + noise) for m in layer if m.name in means
    )
    window = torch.tensor(means["window"], dtype=torch.float64).expand(4, 2) + noise
    return Extension("a model", "token", 16, 48, 8, curves, window, TEXT)


def words(model: Path, text: Path, to: str, *more: str | Path) -> list[str]:
    """Return the words of a ``posenc extend`` command for a model and a text."""
    return ["extend", str(model), "--to", to, "--text", str(text), *map(str, more)]
