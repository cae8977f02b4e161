"""Claims based on a comparison of all encodings. Each claim trains small models and needs ``--slow``."""

from functools import cache

from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim
from posenc.workbench.run.training import train_and_test
from posenc.workbench.study.study import read_study


@cache
def right(encoding: str, study: str = "zoo", task: str = "ordering") -> tuple[float, ...]:
    """Return the accuracy at eight times the trained length for each seed of the study."""
    asked = read_study(study, options={"encodings": (encoding,), "tasks": (task,), "lengths": (1.0, 8.0)})
    text = asked.source.load()
    runs = [train_and_test(plan, text)[1] for plan in asked.plans(text)]
    return tuple([cell.value for cell in run.cells if cell.measure == "accuracy"][-1] for run in runs)


def neighbours(encoding: str) -> tuple[float, ...]:
    """Return the accuracy per seed on the task ``neighbours``, for grids with eight times as many cells as in
    training.
    """
    return right(encoding, "zoo-grid", "neighbours")


@claim(
    statement="Past the trained length, no encoding shows the order of tokens.",
    precise="FoX weakens distant tokens with gates, and KERPLE uses the logarithm of the distance. With every "
    "seed, both encodings stay accurate on sequences eight times as long as those in training. RoPE does not.",
    verdict=Verdict.FAILS,
    source="measured here: trained for 300 steps at 16 symbols, tested at 128, three seeds",
    slow=True,
)
def order_is_kept_by_what_fades() -> Evidence:
    return (
        above("FoX: lowest accuracy", min(right("fox")), 0.95),
        above("KERPLE: lowest accuracy", min(right("kerple")), 0.95),
        below("RoPE: lowest accuracy", min(right("rotary")), 0.8),
    )


@claim(
    statement="One seed shows which encoding still knows the order of tokens past the trained length.",
    precise="RoPE's accuracy at eight times the trained length differs by more than 0.3 among three seeds.",
    verdict=Verdict.FAILS,
    source="measured here: the same models as above",
    slow=True,
)
def one_seed_is_no_verdict() -> Evidence:
    shares = right("rotary")
    return (above("RoPE: highest − lowest accuracy", max(shares) - min(shares), 0.3),)


@claim(
    statement="For images, positions in reading order are good enough.",
    precise="With positions in reading order, a model trained on grids of varying width cannot find neighbours in "
    "grids with eight times as many cells. With row and column as positions, it can.",
    verdict=Verdict.FAILS,
    source="measured here: trained for 500 steps on grids of up to 8×8 cells, tested on 22×23, three seeds",
    slow=True,
)
def reading_order_is_no_place() -> Evidence:
    return (
        above("axial RoPE: lowest accuracy", min(neighbours("rotary(axes=axial(4, 4))")), 0.95),
        below("RoPE in reading order: highest accuracy", max(neighbours("rotary")), 0.5),
    )


@claim(
    statement="For an image, it does not matter how M-RoPE's pairs are divided among time, rows and columns.",
    precise="If the fast pairs go to time, which is constant in an image, a model does not learn to find "
    "neighbours within 500 steps. If the axes are interleaved, the model finds most neighbours.",
    verdict=Verdict.FAILS,
    source="measured here: the same task",
    slow=True,
)
def fast_pairs_find_neighbours() -> Evidence:
    return (
        above("axes interleaved: lowest accuracy", min(neighbours("rotary(axes=strided(4, 2, 2))")), 0.5),
        below("axes in sections: highest accuracy", max(neighbours("rotary(axes=chunked(2, 3, 3))")), 0.2),
    )


@claim(
    statement="Relative tables resized to a larger image work as well as before.",
    precise="Interpolating the rows of a table for 8×8 cells mixes neighbours with cells farther away: on 22×23 "
    "cells, no neighbours are found. A table with a row for every offset finds all neighbours.",
    verdict=Verdict.FAILS,
    source="measured here: the same task",
    slow=True,
)
def resized_tables_lose_neighbours() -> Evidence:
    return (
        above(
            "a row for every offset: lowest accuracy",
            min(neighbours("decomposed(size=(23, 23))")),
            0.95,
        ),
        below("resized from 8×8: highest accuracy", max(neighbours("decomposed(size=(8, 8))")), 0.2),
    )
