"""Results: which encoding holds past its training length?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

RESULTS = Room(
    "results",
    "Results",
    "Which encoding holds past its training length?",
    "The same small transformer, trained with each encoding on this machine and tested far past its training "
    "length. Bands are 95% intervals; a run that did not learn its task is thin and not ranked. The numbers are "
    "read from a study's ledger as it grows.",
    formulas.HOLDS,
    (
        Stage(
            "curves",
            "Past the trained length",
            "The vertical line is where training ended.",
            (
                Try("Is a sequence in order? Judged at once, over its whole length.", {}),
                Try("Python's own documentation: perplexity, byte by byte.", {"task": "language"}),
                Try("A needle in a sequence: does far content survive?", {"task": "needle"}),
            ),
        ),
        Stage(
            "positions",
            "Where in the text it breaks",
            "Loss of language modelling at every position of the longest windows.",
        ),
        Stage(
            "depths",
            "Where the needle can lie",
            "Share of right answers by the needle's depth and the sequence's length.",
        ),
        Stage(
            "properties",
            "Before any training",
            "Unique, bounded, aware of distance, extrapolates: measured on an untrained layer in which every token "
            "is the same word. Yellow is yes.",
            (
                Try("ALiBi keeps unseen distances out, by a penalty without bound.", {"of": "alibi"}),
                Try("A fresh learned table knows nothing of distance.", {"of": "learned"}),
            ),
        ),
    ),
)
