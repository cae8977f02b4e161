"""STRING gives distant keys distances that are more frequent in training (An et al. 2024, arXiv 2410.18745,
section 4).

    distance used = d if d < S
                    d − S + W if d ≥ S

The largest trained distances are rare in training, so they are not used. The nearest S keys keep their
distances, and the distances of the other keys continue from W. The rotation called STRING in robotics (arXiv
2502.02562) is a different method.
"""

from typing import ClassVar, final

from torch import Tensor

from posenc.arguments import Size
from posenc.encodings.placed import RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.remap.remap import At, Remap


@final
class STRING(Remap):
    """Leaves distances below ``shift`` unchanged and reduces larger distances. A cache stores keys that are
    rotated as in RoPE.

    Args:
        rotary: the model's own rotary encoding.
        shift: S; the authors use a third of the trained length.
        window: W, the distance that replaces distance S; at most S. The authors use 128.
    """

    name: ClassVar[str] = "string"
    relative = True

    def __init__(self, rotary: Rotary, shift: Size, window: Size) -> None:
        super().__init__(rotary)
        self.shift, self.window = shift, window
        if window > shift:
            raise InvalidArgument(
                f"window={window} must be at most shift={shift}, because a larger window would increase distances"
            )

    def cached(self, positions: Tensor) -> Tensor:
        return positions

    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        edge = q - self.shift + 1
        return RemappedPart(at(q), None, edge), RemappedPart(at(q - self.shift + self.window), None, None, edge)

    def longest(self, trained: int) -> float:
        return trained if trained < self.shift else trained + self.shift - self.window
