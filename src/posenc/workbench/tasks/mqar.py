"""The task ``mqar``, multi-query associative recall: which value belongs to this key?

The task is from Arora et al. 2023, "Zoology" (arXiv 2312.04927), section 4. A sequence has pairs of keys and
values, and then each key again, amid noise. The gap g between the last pair and the repeated key, in units of
two tokens, follows a power law, as the gaps between repeated pairs do in text: P(g) ∝ (g + 1)^(a − 1) with
a = 0.01. A model finds the key by content, and the value is the token after the key. Each value must therefore
attend to the token before it, its key, and the model must recall values over distances that grow with the
length. The authors fill the gaps with random tokens of the whole vocabulary, so a gap may contain a key that has
no value. This task has separate tokens for noise, so that every key after the pairs is a question with an
answer.
"""

from typing import ClassVar

import torch

from posenc.workbench.tasks.task import IGNORE, Batch, DrawnTask

PAIRS, KEYS, VALUES, NOISE = 4, 32, 16, 16
POWER = 0.01


class MQAR(DrawnTask):
    """A sequence has four pairs of a key and a value, and then four questions, which repeat the keys.

    The chance level of 1/16 is for guessing among all 16 values. A model that guesses among the four values in the
    sequence scores at least 1/4, so it is above chance without having learned the task.
    """

    question = "four keys and their values, then the keys in noise: which value belongs to each?"
    shortest: ClassVar[int] = 4 * PAIRS
    train_length: int = 64
    vocabulary: int = KEYS + VALUES + NOISE
    outputs: int = VALUES
    steps: ClassVar[int] = 2000
    chance: float = 1 / VALUES
    scores_every_answer: ClassVar[bool] = True

    def draw(self, generator: torch.Generator, rows: int, length: int) -> Batch:
        first, slots = 2 * PAIRS, (length - 2 * PAIRS) // 2
        keys = torch.rand(rows, KEYS, generator=generator).argsort(1)[:, :PAIRS]
        values = torch.randint(VALUES, (rows, PAIRS), generator=generator)
        near = torch.arange(1, slots + 1.0) ** (POWER - 1)
        at = first + 2 * torch.multinomial(near.expand(rows, -1), PAIRS, generator=generator)
        tokens = KEYS + VALUES + torch.randint(NOISE, (rows, length), generator=generator)
        tokens[:, :first] = torch.stack((keys, KEYS + values), 2).flatten(1)
        tokens.scatter_(1, at, keys)
        return Batch(tokens, torch.full_like(tokens, IGNORE).scatter_(1, at, values))
