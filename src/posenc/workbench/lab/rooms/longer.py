"""Further than trained: what do the methods of extension slow?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

EXTENSION = Room(
    "longer",
    "Further",
    "How do you go further than trained?",
    "Slow pairs never complete a turn in training, so a longer text shows them angles that nothing was learnt for. "
    "Every method slows the clock, and they differ in whom they slow. Say which pairs you would leave alone, then "
    "look.",
    formulas.EXTENSION,
    (
        Stage(
            "schedule",
            "One method, pair by pair",
            "Fast pairs are at the left. The mark is where pairs stop completing a turn in training.",
            (
                Try("PI slows all alike: neighbours blur.", {"method": "linear"}),
                Try("NTK keeps the first pair and slows the last by the full factor.", {"method": "ntk"}),
                Try(
                    "Llama 3.1: factor 8 over 8192, base 500 000.",
                    {"method": "llama3", "factor": "8", "trained": "8192", "base": "500000"},
                ),
            ),
        ),
        Stage(
            "extension",
            "All methods at once",
            "One picture compares the largest angle in the longer text with the largest in training, for pairs "
            "that never completed a turn. Above 1 is unknown ground.",
            (
                Try("Factor 32: NTK goes further out.", {"factor": "32"}),
                Try("4096 to a million: factor 256.", {"factor": "256"}),
                Try(
                    "Base 500 000, trained at 8192: 29 of 64 pairs never turned.",
                    {"base": "500000", "trained": "8192"},
                ),
            ),
        ),
    ),
)
