"""A reader that counts the input tokens of a model, and that stops or is killed in the middle of a document."""

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
"""The trained length, the length of a document, and the length of a piece, in tokens."""


class Broken(KeyboardInterrupt):
    """The reader was asked to stop."""


class Reader:
    """The model in ``folder`` with its text, and the numbers of pieces and tokens that the model has read.

    Args:
        stop: the number of pieces after which the reader stops; None to read everything.
        documents: the number of documents to read.
    """

    def __init__(self, folder: Path, stop: int | None = None, documents: int = 1) -> None:
        self.model, self.data, self.text = open_model(folder, folder / "text.txt", "cpu", "float32")
        self.stop, self.documents, self.pieces, self.tokens = stop, documents, 0, 0
        self.model.model.register_forward_pre_hook(self.count)

    def count(self, model: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        """Count the input of a forward pass, except a single token, which only finds out the type of cache."""
        length = inputs[0].shape[-1]
        if self.pieces == self.stop:
            raise Broken
        self.tokens += length
        self.pieces += length > 1

    def extend(self, ledger: Ledger) -> Extension:
        chosen = methods(None, self.model.scaling, TRAINED, TO / TRAINED)
        return measure(self.model, self.data, self.text, Request(TO, self.documents, chosen), ledger, in_process)


def small_pieces(set_to: Any = setattr) -> None:
    """Make the library read texts in small pieces."""
    set_to(load, "PIECE", PIECE)


def carry_out(model: Path, folder: Path, documents: int, told: Connection) -> None:
    """Send the number of finished pieces before each piece, and then the results."""
    torch.set_num_threads(1)
    small_pieces()

    class Telling(Reader):
        def count(self, model: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            told.send(self.pieces)
            super().count(model, inputs)

    reader = Telling(model, documents=documents)
    with Ledger(folder, write=True) as ledger:
        told.send(as_json(reader.extend(ledger)))
