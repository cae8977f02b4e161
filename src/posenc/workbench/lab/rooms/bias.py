"""The bias: how does ALiBi make far tokens fade?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

BIAS = Room(
    "bias",
    "The bias",
    "How does ALiBi make far tokens fade?",
    "ALiBi takes an amount from each score that grows with distance, and each head takes its own. There is "
    "nothing to learn and nothing to run out of. What it cannot do is look far with a steep head.",
    formulas.BIAS,
    (
        Stage(
            "bias",
            "One map a head",
            "Blue is taken away. Both sides lose alike; the causal mask is a separate matter.",
            (
                Try("With a causal mask the future is empty, not free.", {"causal": "1"}),
                Try("One head alone: slope 1/256, hardly a penalty.", {"few": "1", "length": "32"}),
                Try("Eight heads: slopes 1/2 … 1/256.", {"few": "8", "length": "16"}),
            ),
        ),
        Stage(
            "slopes",
            "The slopes",
            "For 2ᵏ heads one geometric series. Any other count borrows from the next power of two.",
            (
                Try("12 heads: two series.", {"heads": "12"}),
                Try("112 heads, as in BLOOM.", {"heads": "112"}),
            ),
        ),
        Stage(
            "weights",
            "What softmax leaves",
            "All keys equally relevant, the last token looking back.",
            (Try("4096 keys: flat heads still see them.", {"context": "4096"}),),
        ),
    ),
)
