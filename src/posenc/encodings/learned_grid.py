"""A learned table over rows and columns, resized to any image size (ViT: Dosovitskiy et al. 2020, arXiv
2010.11929).

    x_t + W[y, x],   or   x_t + R[y] + C[x]

for a token in row y and column x of its image. W has an entry for every pair of row and column. In the sum, as in
Pix2Struct and Gemma 4's vision tower, R has an entry for every row, and C for every column. For an image of
another size, the table is resized to A_y·W·A_xᵀ, where A_y and A_x are the interpolation weights of one of the
conventions in ``posenc.encodings.resize``.
"""

from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.arguments import Size, Std, at_least
from posenc.encodings.embedding_table import EmbeddingTable
from posenc.encodings.places import holds
from posenc.encodings.resize import Resize, matrix, named
from posenc.encodings.wide import unrounded
from posenc.errors import InvalidArgument

GridTables = Literal["grid", "sum"]


@final
class LearnedGrid(EmbeddingTable):
    """Adds to every token embedding the trained vector of the token's row and column in its image.

    Args:
        num_positions: the number of rows of the table. The number of columns is the same unless ``columns`` is
            given.
        width: C, channels of the token embeddings.
        columns: the number of columns of the table, if it is not square.
        tables: ``"grid"`` for one entry per pair of row and column; ``"sum"`` for one entry per row plus one entry
            per column.
        resize: the convention for images of another size, such as ``"timm"``: a name in
            ``posenc.encodings.resize.RESIZES``, or a ``Resize``. The convention is needed only for images of
            another size.
        std: entries are initialised from N(0, std²); 0.02 as in ViT.

    ``weight`` is ``(rows·columns, C)``, row by row, as in public checkpoints but without the entry of the class
    token; for ``"sum"`` it is ``(rows + columns, C)``. After ``embed``, prepend tokens that have no position in the
    image, such as the class token and registers.
    """

    name: ClassVar[str] = "learned-grid"
    axes = 2

    def __init__(
        self,
        num_positions: Size,
        width: Size,
        *,
        columns: Annotated[int | None, at_least(1)] = None,
        tables: GridTables = "grid",
        resize: str | Resize | None = None,
        std: Std = 0.02,
    ) -> None:
        super().__init__()
        rows, self.width = num_positions, width
        columns = rows if columns is None else columns
        self.shape = self.picture = self.places = (rows, columns)
        self.tables: GridTables = tables
        self.resize = None if resize is None else named(resize)
        self.std = std
        self.position_limit = min(self.shape)
        self.weight = nn.Parameter(torch.empty(rows * columns if tables == "grid" else rows + columns, self.width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.std)

    def resized(self, rows: int, columns: int, resize: str | Resize | None = None) -> "LearnedGrid":
        """Return the encoding for images with this many rows and columns; both encodings share the same
        parameter. ``resize`` is the convention, by default the convention of this encoding.
        """
        how = self.resize if resize is None else named(resize)
        if how is None:
            raise InvalidArgument(
                "resize=None is not a convention; pass the one with which the checkpoint was trained, such as "
                "'timm' or 'vit'"
            )
        rows, columns = at_least(1)(rows, "rows"), at_least(1)(columns, "columns")
        with torch.device("meta"):
            other = LearnedGrid(**{**self.settings, "resize": how})
        other.weight = self.weight
        other.picture = other.places = (rows, columns)
        other.position_limit = min(rows, columns)
        return other

    def enlarged(self, *places: int) -> "LearnedGrid":
        if self.resize is None or holds(self.picture, places):
            return self
        rows, columns = places
        return self.resized(rows, columns)

    @property
    def past_limit(self) -> str:  # type: ignore[override]
        rows, columns = self.picture
        return (
            f", but this table is for pictures of {rows} rows and {columns} columns; call resized(rows, columns) "
            "with the sizes of your picture"
        )

    def table(  # type: ignore[override]  # the whole image, not some positions
        self, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "rows columns C"]:
        """Return the vector of every position in the image, in the wider of ``dtype`` and the parameter's dtype."""
        compute_dtype = torch.promote_types(self.weight.dtype, dtype)
        if self.tables == "sum":
            rows, columns = self.weight.to(compute_dtype).split(self.shape)
            return self._along(0, rows)[:, None] + self._along(1, columns)
        grid = self.weight.to(compute_dtype).unflatten(0, self.shape)
        return self._along(1, self._along(0, grid).transpose(0, 1)).transpose(0, 1)

    def _along(self, axis: int, table: Float[Tensor, "N *rest"]) -> Float[Tensor, "n *rest"]:
        """Resize a table along its first axis, which is axis ``axis`` of the image."""
        if self.picture == self.shape or self.resize is None:
            return table
        weights = matrix(self.resize, self.picture[axis], self.shape[axis], table.device)
        with unrounded(table):
            return torch.tensordot(weights.to(table.dtype), table, 1)

    def rows(self, positions: Int[Tensor, "2 *S"], dtype: torch.dtype) -> Float[Tensor, "*S C"]:
        cells = positions[0] * self.picture[1] + positions[1]
        return nn.functional.embedding(cells, self.table(dtype).flatten(0, 1))

    def describe(self) -> str:
        kind = "a learned table of" if self.tables == "grid" else "learned tables of"
        size, picture = ("×".join(map(str, shape)) for shape in (self.shape, self.picture))
        return f"{kind} {size} positions" + ("" if picture == size else f", resized to {picture}")
