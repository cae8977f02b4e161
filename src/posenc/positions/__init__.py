"""Functions that build position tensors for text, for grids, and for sequences of text, images and videos.

Positions are int64, from 0 to 2^31−1, or from −(2^31−1) if the encoding is ``signed``. Positions never have the
dtype of activations, and are never given as just a length. To use an encoding with a cache, padding, packing or
sharded sequences, change only the positions that you pass.
"""

from posenc.kernels.memory import LIMIT as LIMIT
from posenc.kernels.memory import check_positions as check  # noqa: F401  part of this interface
from posenc.mask.tensors import left_padded as left_padded
from posenc.positions.drawn import coupled as coupled
from posenc.positions.drawn import pose as pose
from posenc.positions.drawn import randomised as randomised
from posenc.positions.grids import Device as Device
from posenc.positions.grids import centred as centred
from posenc.positions.grids import grid as grid
from posenc.positions.grids import left_padded_rows as left_padded_rows
from posenc.positions.grids import midpoints as midpoints
from posenc.positions.grids import packed_rows as packed_rows
from posenc.positions.spans import COUNTINGS as COUNTINGS
from posenc.positions.spans import Counting as Counting
from posenc.positions.spans import Image as Image
from posenc.positions.spans import Span as Span
from posenc.positions.spans import Text as Text
from posenc.positions.spans import Video as Video
from posenc.positions.spans import multimodal as multimodal
from posenc.positions.tokens import arange as arange
from posenc.positions.tokens import from_cu_seqlens as from_cu_seqlens
from posenc.positions.tokens import on_axes as on_axes
from posenc.positions.tokens import packed as packed
from posenc.positions.tokens import sharded as sharded
