"""The table: what happens one past the last row?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

TABLE = Room(
    "table",
    "The table",
    "What happens one past the last row?",
    "A learned encoding is a table with a row per position, added to the word's vector. Rows start random: "
    "whatever order they show, training put there. A table of 512 rows serves lengths up to 512; position 512 "
    "has no row.",
    formulas.TABLE,
    (
        Stage(
            "table",
            "Four frames",
            "",
            (
                Try("Rows are allocated: random numbers, no order.", {"step": "2"}),
                Try("Position 5 is looked up: row 5, whatever it holds.", {}),
                Try("Position 8 of 8 rows: one past the end.", {"step": "4"}),
            ),
        ),
        Stage(
            "lookup",
            "Look a position up",
            "The answer is the library's own words.",
            (
                Try("The last row still answers.", {"position": "7"}),
                Try("512 rows, position 512.", {"rows": "512", "position": "512"}),
                Try("Reuse the last row, knowingly.", {"position": "12", "past_end": "clamp"}),
            ),
        ),
        Stage(
            "rows",
            "Does a fresh table know order?",
            "A table before training, beside the sinusoidal one.",
            (Try("Few columns: strangers look alike by chance.", {"columns": "8"}),),
        ),
        Stage(
            "trained-table",
            "What does training put there?",
            "A learned table of your own study, before training and after: diagonals would mean that distance was "
            "learnt.",
            (Try("Does judging order need neighbours to be alike?", {"learnt": "ordering"}),),
        ),
    ),
)
