"""The base class of encodings that add a vector to each token embedding: learned tables and sinusoids."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions


class PlacedTable(Placed):
    """The rows that are added to the token embeddings, one per position."""

    def __init__(self, q_positions: Positions, k_positions: KeyPositions, rows: Tensor, axes: int = 1) -> None:
        super().__init__(q_positions, k_positions, axes)
        self.rows = rows

    def embed(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Return x + rows, computed in the wider of the two dtypes and rounded once to the dtype of x."""
        self.check_current()
        self.check_embeddings(x, self.rows.shape[-1])
        return (x + self.rows).to(x.dtype)


class EmbeddingTable(Encoding):
    """Adds to every token embedding the row of its position; a subclass implements ``rows``."""

    acts_on = ("embeddings",)
    relative = False

    @abstractmethod
    def rows(self, positions: Positions, dtype: torch.dtype) -> Float[Tensor, "*shape C"]:
        """Return the rows at these positions, which have already been checked."""

    def table(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Float[Tensor, "*shape C"]:
        """Return the rows that are added to the embeddings at these positions."""
        self.check(positions, "positions")
        return self.rows(positions, dtype)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTable(q_positions, k_positions, self.rows(q_positions, dtype), self.axes)
