"""The page's colours: CSS variables and the 256 steps of every heatmap, all from the one palette."""

from posenc.workbench import palette

CIVIDIS = (
    "#00224e", "#0b2e6c", "#29396c", "#3f456b", "#51506c", "#625c6e", "#727871", "#7f7c75",
)  # fmt: skip

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f")
"""Lines that stand for no encoding, in the order they are drawn."""
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 3), (2, 2.5), (9, 3, 2, 3), (4, 2), (12, 4), (1, 2))
