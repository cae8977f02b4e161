"""What each factor of a method costs at each length: for the page, the terminal and programs."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from posenc.pictures.numbers import count, plain, signed
from posenc.workbench.extend.curves import Extension, MethodLosses
from posenc.workbench.extend.verdict import paired
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends
from posenc.workbench.study.statistics import Interval


@dataclass(frozen=True)
class Price:
    """A method at several factors, no scaling first.

    Args:
        lengths: ascending; a column holds the positions past the length before it.
        losses: means over documents, a row a factor.
        to_lowest: minus those of the factor with the lowest mean of the column, paired over documents.
    """

    method: str
    labels: tuple[str, ...]
    lengths: tuple[int, ...]
    losses: list[list[float]]
    to_lowest: list[list[Interval]]

    @property
    def sentence(self) -> str:
        """Up to which length each factor is lowest."""
        best = [self.labels[column.index(min(column))] for column in map(list, zip(*self.losses, strict=True))]
        last = [i for i, label in enumerate(best) if best[i + 1 : i + 2] != [label]]
        each = ", then ".join(f"{best[i]} up to {count(self.lengths[i])}" for i in last)
        return f"Lowest loss at each length: {each}."

    def cells(self, row: int) -> list[tuple[str, str]]:
        """A factor's losses, each with its difference to the lowest below it."""
        return [
            (plain(loss, 3), _gap(gap)) for loss, gap in zip(self.losses[row], self.to_lowest[row], strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        """Losses and differences by factor, in the order of ``lengths``."""
        gaps = [[gap.as_json() for gap in row] for row in self.to_lowest]
        rows = zip(self.labels, self.losses, gaps, strict=True)
        factors = {label: {"losses": losses, "to_lowest": gaps} for label, losses, gaps in rows}
        return {"method": self.method, "lengths": self.lengths, "factors": factors}

    def table(self, unit: str) -> Table:
        """For the terminal."""
        caption = f"price of {self.method}: nats per {unit} past the length before, and to the lowest of its column"
        table = grid("factor", (f"up to {count(length)}" for length in self.lengths), caption)
        for row, label in enumerate(self.labels):
            means = zip(self.losses[row], self.to_lowest[row], strict=True)
            table.add_row(label, *(f"{plain(loss, 3)} {signed(gap.mean)}" for loss, gap in means))
        return table


def prices(extension: Extension) -> list[Price]:
    """Of every method that was measured at a stated factor, as ``yarn(2)``; lengths double up to the whole one,
    from a quarter of the trained one.
    """
    by_method: dict[str, list[MethodLosses]] = {}
    for curve in extension.curves:
        if curve.method.name.endswith(")") and not curve.tuned:
            by_method.setdefault(curve.method.name.partition("(")[0], [extension.plain]).append(curve)
    buckets = extension.length // extension.width
    ends = sorted({min(1 << i, buckets) for i in range(buckets.bit_length() + 1)})
    parts = [slice(before, end) for before, end in zip([0, *ends], ends, strict=False)]
    return [_price(name, curves, parts, extension.width) for name, curves in by_method.items()]


def _price(name: str, curves: list[MethodLosses], parts: list[slice], width: int) -> Price:
    means = [[curve.losses[:, part].mean(1).tolist() for curve in curves] for part in parts]
    losses = [[sum(documents) / len(documents) for documents in column] for column in means]
    best = [column[each.index(min(each))] for column, each in zip(means, losses, strict=True)]
    gaps = [[paired(one, low) for one in column] for column, low in zip(means, best, strict=True)]
    rows, to_lowest = ([list(row) for row in zip(*columns, strict=True)] for columns in (losses, gaps))
    return Price(name, tuple(c.label for c in curves), tuple(p.stop * width for p in parts), rows, to_lowest)


def _gap(gap: Interval) -> str:
    if not gap.mean:
        return ""
    return ", ".join(filter(None, (signed(gap.mean), ends(gap))))
