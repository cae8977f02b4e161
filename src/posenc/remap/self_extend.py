"""Self-Extend groups distant keys, and gives all keys of a group the same position (Jin et al. 2024, arXiv
2401.01325, section 3).

    distance d < W:  p_q − p_k                          neighbours, as trained
    distance d ≥ W:  ⌊p_q/G⌋ + W − ⌊W/G⌋ − ⌊p_k/G⌋       groups of G tokens

With the shift W − ⌊W/G⌋, the distances to groups continue where the distances to neighbours end.
"""

from typing import ClassVar, final

from torch import Tensor

from posenc.arguments import Size
from posenc.encodings.placed import RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.remap.remap import At, Remap


@final
class SelfExtend(Remap):
    """Leaves distances to near keys unchanged and divides other distances by G. A cache stores unrotated keys.

    The authors' code adds W − W/G, not W − ⌊W/G⌋, to the positions of grouped queries; W − W/G is not a whole
    number unless G divides W. Their code adds nothing if the positions of all queries are below W, because all
    keys are then at distances below W. Optionally, their code multiplies queries by ln(p + 1)/ln(b), where p is the
    query's position and the user sets b; here, use ``stack(self-extend(…), query-scale(…))`` for this factor.

    Args:
        rotary: the model's own rotary encoding.
        group: G, the number of tokens that share a position.
        window: W; distances below it are unchanged.
    """

    name: ClassVar[str] = "self-extend"
    relative = False

    def __init__(self, rotary: Rotary, group: Size, window: Size) -> None:
        super().__init__(rotary)
        self.group, self.window = group, window

    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        G, W = self.group, self.window
        edge = q - W + 1
        far = RemappedPart(at(q // G + W - W // G), at(k // G), None, edge)
        return RemappedPart(at(q), at(k), edge), far

    def longest(self, trained: int) -> float:
        G, W = self.group, self.window
        # The largest distance of T tokens is ⌊(T − 1)/G⌋ + W − ⌊W/G⌋, once T > W.
        return trained if trained < W else max(W, (trained - W + W // G) * G)
