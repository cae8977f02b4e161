"""Learned absolute position embeddings (Gehring et al. 2017, arXiv 1705.03122; used by BERT and GPT-2).

    x_p + W[p],   W is a trained table of num_positions × C

A table of 512 rows covers positions 0–511; position 512 has no row and raises an error.
"""

from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.arguments import Size, Std
from posenc.encodings.embedding_table import EmbeddingTable
from posenc.encodings.placed import Positions

PastEnd = Literal["error", "clamp"]


@final
class Learned(EmbeddingTable):
    """Adds a trained row per position to the token embeddings.

    Args:
        num_positions: the number of rows in the table; the last position is ``num_positions − 1``.
        width: C, channels of the token embeddings.
        past_end: what happens at positions past the end of the table: ``"error"`` (default) raises an error;
            ``"clamp"`` uses the last row, for experiments. Rows that were not trained, such as rows past the
            trained length, cannot be detected.
        std: rows are initialised from N(0, std²); 0.02 as in GPT-2 and BERT.
    """

    name: ClassVar[str] = "learned"

    def __init__(self, num_positions: Size, width: Size, *, past_end: PastEnd = "error", std: Std = 0.02) -> None:
        super().__init__()
        self.num_positions = num_positions
        self.width = width
        self.past_end: PastEnd = past_end
        self.std = std
        if past_end == "error":
            self.position_limit = num_positions
            self.past_limit = (
                f", but the learned table has {num_positions} rows: its last position is {num_positions - 1}; "
                "train a longer table, or pass past_end='clamp' to reuse the last row"
            )
        self.weight = nn.Parameter(torch.empty(num_positions, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.std)

    def rows(self, positions: Positions, dtype: torch.dtype) -> Float[Tensor, "*shape C"]:
        if self.past_end == "clamp":
            positions = positions.clamp(max=self.num_positions - 1)
        return nn.functional.embedding(positions, self.weight)

    def describe(self) -> str:
        return f"a learned table of {self.num_positions} positions"
