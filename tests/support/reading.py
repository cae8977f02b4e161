"""A reader that counts the tokens that its model is given, and breaks off or is killed inside a document."""

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from posenc.integrations.huggingface import load
from posenc.workbench.extension.decision import Extension
from posenc.workbench.extension.measure import Request, measure
from posenc.workbench.extension.methods import methods
from posenc.workbench.extension.models import open_model
from posenc.workbench.report.extension import as_json
from posenc.workbench.run.job import in_process
from posenc.workbench.run.ledger import Ledger

TRAINED, TO, PIECE = 64, 256, 32
"""The trained length, and the tokens of a document and of a piece."""


class Broken(KeyboardInterrupt):
    """The reader was asked to break off."""


class Reader:
    """The model in ``folder`` with its text, and how much it was given.

    Args:
        stop: pieces after which it breaks off; None reads on.
        documents: to read.
    """

    def __init__(self, folder: Path, stop: int | None = None, documents: int = 1) -> None:
        self.model, self.data, self.text = open_model(folder, folder / "text.txt", "cpu", "float32")
        self.stop, self.documents, self.pieces, self.tokens = stop, documents, 0, 0
        self.model.model.register_forward_pre_hook(self.count)

    def count(self, model: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        """Called with what the model is about to read; a single token asks which cache it has."""
        length = inputs[0].shape[-1]
        if self.pieces == self.stop:
            raise Broken
        self.tokens += length
        self.pieces += length > 1

    def extend(self, ledger: Ledger) -> Extension:
        chosen = methods(None, self.model.scaling, TRAINED, TO / TRAINED)
        return measure(self.model, self.data, self.text, Request(TO, self.documents, chosen), ledger, in_process)


def small_pieces(set_to: Any = setattr) -> None:
    """Let texts be read in small pieces."""
    set_to(load, "PIECE", PIECE)


def carry_out(model: Path, folder: Path, documents: int, told: Connection) -> None:
    """Tell the number of pieces that are read so far, before each, and then the numbers."""
    torch.set_num_threads(1)
    small_pieces()

    class Telling(Reader):
        def count(self, model: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            told.send(self.pieces)
            super().count(model, inputs)

    reader = Telling(model, documents=documents)
    with Ledger(folder, write=True) as ledger:
        found = reader.extend(ledger)
        told.send(as_json(found))
