"""The rotation: why does RoPE see only the offset?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

ROTATION = Room(
    "rotation",
    "The rotation",
    "Why does RoPE see only the offset?",
    "RoPE turns the query by its position and the key by its own. Turn both further by the same angle and their "
    "dot product cannot change: only n − m is left. Predict the score before you move them.",
    formulas.ROTATION,
    (
        Stage(
            "shift-both",
            "Move both",
            "Faint vectors are unrotated. The yellow one is k as q at position 0 would see it.",
            (
                Try("Move from (1, 3) to (3, 5): still −1.100.", {"m": "3"}),
                Try("Offset 8 is a whole turn: 1.700 again.", {"offset": "8"}),
                Try("A real model's fastest pair turns 1 rad a step, further than π/4.", {"turn": "radian"}),
            ),
        ),
        Stage(
            "turning",
            "Step by step, q and k apart",
            "q and k both lie along +x. Each is turned by its own position; the score is the cosine of what lies "
            "between them.",
            (
                Try("q alone, not yet turned.", {"step": "1"}),
                Try("k four further: half a turn away, the score is −1.", {"here": "0", "there": "4"}),
                Try("k before q: the same score, the cosine has no sign.", {"here": "3", "there": "1"}),
            ),
        ),
        Stage(
            "every-pair",
            "Every pair at once",
            "A random q and k. The score is the sum over pairs.",
            (
                Try("A million positions on: every picture turns, the score stays.", {"start": "1000000"}),
                Try("Offset 0: nothing but content.", {"apart": "0"}),
            ),
        ),
        Stage(
            "pairings",
            "Two pairings of channels",
            "“Interleaved” pairs channels (2i, 2i + 1), “half” pairs (i, i + d/2). One vector, both ways.",
            (Try("Position 0 is the identity in both.", {"place": "0"}),),
        ),
        Stage(
            "score",
            "Does the score decay with distance?",
            "Two equal vectors, one moved away. Commit to an answer first.",
            (
                Try("Random q and k: no decay.", {"content": "random"}),
                Try("A key built to score most 300 back.", {"content": "peaked"}),
            ),
            guesses=("Yes, the further the lower", "No"),
        ),
        Stage(
            "spread",
            "Over many random contents",
            "200 random q and k: mean 0, and as wide at 1000 as at 1.",
        ),
        Stage(
            "phases",
            "How far out do angles hold?",
            "Public checkpoints compute angles in float32. Here they run beside the library's integer turns, "
            "judged by 50-digit arithmetic.",
            (
                Try("Position 4096: both look alike.", {"far": "4096"}),
                Try("Ten million: float32 points elsewhere.", {"far": "10000000"}),
                Try("The last position of all, 2³¹ − 1.", {"far": "2147483647"}),
            ),
        ),
    ),
)
