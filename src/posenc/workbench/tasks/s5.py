"""The task ``s5``, a control: the running product of permutations of five items.

The word problem of a finite non-solvable group, such as S5, is complete for NC1, whereas transformers of fixed
depth can compute only functions in TC0, which is believed to be smaller (Liu et al. 2022, "Transformers Learn
Shortcuts to Automata", arXiv 2210.10749; Merrill et al. 2024, "The Illusion of State in State-Space Models", arXiv
2404.08819). No encoding should keep its accuracy past the trained length; if an encoding seems to, the study is
faulty.
"""

from functools import cache
from itertools import accumulate, permutations
from typing import ClassVar

import torch
from torch import Tensor

from posenc.workbench.tasks.task import Batch, DrawnTask

THINGS, ELEMENTS = 5, 120


class S5(DrawnTask):
    """A token is one of the 120 permutations, and its answer is the product of all permutations so far. The
    product is uniform over all permutations, so the chance level is 1/120."""

    question = "what is the product of all permutations of five items so far? (no encoding should hold)"
    shortest: ClassVar[int] = 2
    train_length: int = 16
    vocabulary: int = ELEMENTS
    outputs: int = ELEMENTS
    steps: ClassVar[int] = 2000
    chance: float = 1 / ELEMENTS

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        tokens = torch.randint(ELEMENTS, (rows, length), generator=generator)
        products = accumulate(tokens.unbind(1), lambda product, token: _table()[token, product])
        return Batch(tokens, torch.stack([*products], 1))


@cache
def _table() -> Tensor:
    """Return the multiplication table of the permutations, which are numbered in lexicographic order.

    ``table[g, f]`` is the number of the permutation that applies f first and then g.
    """
    elements = torch.tensor(list(permutations(range(THINGS))))
    codes = elements @ THINGS ** torch.arange(THINGS)
    numbers = torch.zeros(THINGS**THINGS, dtype=torch.int64).scatter_(0, codes, torch.arange(ELEMENTS))
    composed = elements[:, elements]  # [g, f, i] = g(f(i))
    return numbers[composed @ THINGS ** torch.arange(THINGS)]
