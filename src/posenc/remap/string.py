"""STRING: far keys at distances that training saw more often (An et al. 2024, arXiv 2410.18745, section 4).

    distance used = d            where d < S
                    d − S + W    where d ≥ S

The largest distances of training are seldom in its texts, and are left out; the nearest W stay to the neighbours.
This is not the rotation STRING of robotics (arXiv 2502.02562).
"""

from typing import ClassVar, final

from torch import Tensor

from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.remap.remap import Part, Remap


@final
class STRING(Remap):
    """Distances below ``shift`` as they are, all others moved down; a cache keeps keys rotated as RoPE's.

    Args:
        rotary: the model's.
        shift: S; the authors take a third of the trained length.
        window: W, at most S; the authors take 128.
    """

    name: ClassVar[str] = "string"
    relative = True
    rotates_cached = True
    shift: int
    window: int

    def __init__(self, rotary: Rotary, shift: int, window: int) -> None:
        super().__init__(rotary, shift=shift, window=window)
        if self.window > self.shift:
            raise InvalidArgument(f"window={window} is more than shift={shift}; distances would grow")

    def parts(self, q: Tensor, k: Tensor) -> tuple[Part, ...]:
        edge = q - self.shift + 1
        return Part(q, None, edge), Part(q - self.shift + self.window, None, None, edge)

    def longest(self, trained: int) -> float:
        return 0 if self.shift > trained else trained + self.shift - self.window
