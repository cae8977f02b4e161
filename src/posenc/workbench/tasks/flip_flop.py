"""The task ``flip-flop``: read back the last written bit, across any number of ignored bits.

The task is FFL(0.8) from Liu et al. 2023, "Exposing Attention Glitches with Flip-Flop Language Modeling" (arXiv
2306.00946). A sequence simulates a memory of one bit. Before every bit in the sequence, there is an instruction:
write this bit to the memory, read the memory (this bit is the answer), or ignore this bit. The task tests whether
attention goes only to the last write, at any distance: attention to other tokens can make the answer wrong.
"""

from typing import ClassVar

import torch

from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask

WRITE, READ, SKIP = 2, 3, 4
SHARES = 0.1, 0.1, 0.8
"""The frequencies of the three instructions, as in the paper's training."""


class FlipFlop(DrawnTask):
    """A sequence of alternating instructions and bits, which starts with a write and ends with a read.

    The answer is the bit after a read, and the chance level is 1/2.
    """

    question = "read back the last written bit, past many ignored bits"
    shortest: ClassVar[int] = 3
    train_length: int = 64
    vocabulary: int = 5
    outputs: int = 2
    chance: float = 0.5

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        pairs = (length + 1) // 2
        shares = torch.tensor(SHARES).expand(rows, -1)
        instructions = WRITE + torch.multinomial(shares, pairs, replacement=True, generator=generator)
        instructions[:, 0], instructions[:, -1] = WRITE, READ
        written = torch.where(instructions == WRITE, torch.arange(pairs), 0).cummax(1).values
        reads = instructions == READ
        bits = torch.randint(2, (rows, pairs), generator=generator)
        bits = torch.where(reads, bits.gather(1, written), bits)
        answers = torch.where(reads, bits, IGNORE), torch.full_like(bits, IGNORE)
        tokens, targets = (torch.stack(pair, 2).flatten(1)[:, :-1] for pair in ((instructions, bits), answers))
        depth = tuple((written[:, -1] / max(pairs - 2, 1)).tolist())
        return Batch(tokens, targets, depth)
