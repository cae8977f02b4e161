"""The drawing decisions for a view: limits, shared colour bars, ticks, colours and labels for all renderers."""

import math
from collections.abc import Sequence

from posenc.pictures.numbers import fixed, plain, power, short, with_unit
from posenc.pictures.palette import DASHES, SERIES, style, token
from posenc.pictures.scene import AxisScale, Bar, Chart, Curve, Disc, Map, Tick, Vector
from posenc.pictures.view import Axis, Heatmap, Lines, Plane, View

WRITTEN_CELLS = 160
"""The largest number of cells of a matrix for which the number in each cell is shown."""
APART = 0.04
"""The distance by which the end of an axis is moved away from a mark that lies on it, as a share of the axis."""
TICKED = 8
"""An axis with at most this many cells, or a logarithmic axis with at most this many points, has a tick at each."""
DEEPEST = 6
"""The largest number of powers of ten on a logarithmic axis, unless a whole curve is lower."""
MANTISSAS = (1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)
"""The ticks within a power of ten on a logarithmic axis; an axis over fewer powers of ten has more ticks."""
ENOUGH, MOST = 4, 7
"""The smallest and the largest number of ticks on a logarithmic axis, if its range allows."""


def compose(answer: View) -> tuple[Map | Chart | Disc, ...]:
    """Return the panels of a view with all drawing decisions made. Heatmaps with the same type of colour scale and
    the same unit share one colour bar.
    """
    heatmaps = [panel for panel in answer.panels if isinstance(panel, Heatmap)]
    kinds = {(panel.scale, panel.unit) for panel in heatmaps}
    compared = {kind: [panel for panel in heatmaps if (panel.scale, panel.unit) == kind] for kind in kinds}
    bars = {kind: _bar(panels) for kind, panels in compared.items()}

    def composed(panel: Heatmap | Lines | Plane) -> Map | Chart | Disc:
        if isinstance(panel, Heatmap):
            kind = panel.scale, panel.unit
            return _map(panel, bars[kind], compared[kind])
        return _chart(panel) if isinstance(panel, Lines) else _disc(panel)

    return tuple(map(composed, answer.panels))


def limits(panel: Heatmap) -> tuple[float, float]:
    """Return the values at the ends of the colour scale for this matrix alone."""
    low, high = _extremes(panel)
    if panel.scale == "signed":
        end = panel.limit or max(-low, high) or 1.0
        return -end, end
    if panel.limit is not None:
        return min(low, 0.0), panel.limit
    return low, high if high > low else low + 1


def _bar(panels: Sequence[Heatmap]) -> Bar:
    """Return one colour scale that covers the scales of all compared panels."""
    ends = [limits(panel) for panel in panels]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    values = [value for panel in panels for value in _extremes(panel)]
    one_sided = panels[0].scale == "signed" and (min(values) >= 0 or max(values) <= 0) and any(values)
    shown = (low, high) if not one_sided else (0.0, high) if max(values) > 0 else (low, 0.0)
    unit = panels[0].unit
    label = with_unit(panels[0].name, unit) if len(panels) == 1 else unit
    legend = () if panels[0].scale == "picture" else _legend(*shown)
    return Bar(low, high, shown, label, with_texts(round_steps(*shown, most=5)), legend)


def _extremes(panel: Heatmap) -> tuple[float, float]:
    """Return the smallest and the largest value of a matrix; 0 and 0 if all values are NaN."""
    known = panel.values[~panel.values.isnan()]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _legend(low: float, high: float) -> tuple[Tick, ...]:
    zero = (0.0,) if 0.4 < -low / (high - low) < 0.6 else ()  # nearer to an end, the two labels would touch
    return tuple((value, short(float(f"{value:.3g}"))) for value in (low, *zero, high))


def _map(panel: Heatmap, bar: Bar, compared: Sequence[Heatmap]) -> Map:
    rows, columns = panel.values.shape
    few = rows * columns <= WRITTEN_CELLS and panel.picture is None
    return Map(
        panel,
        panel.values if panel.picture is None else panel.picture,
        _cells(panel.rows),
        _cells(panel.columns),
        bar,
        panel.words or (_texts(panel, compared) if few else ()),
        tuple(tick_text(panel.rows, i) for i in range(rows)) if few else (),
    )


def _texts(panel: Heatmap, compared: Sequence[Heatmap]) -> tuple[tuple[str, ...], ...]:
    """Return the text of every cell: integers if all compared panels have only integers, else numbers with
    decimals."""
    integers = all(bool((each.values.nan_to_num() % 1 == 0).all()) for each in compared)
    largest = float(panel.values.nan_to_num().abs().max())
    digits = 0 if integers else 4 if panel.values.shape[1] <= 4 else 2 if largest >= 0.1 else 3
    return tuple(tuple("" if math.isnan(v) else plain(v, digits) for v in row) for row in panel.values.tolist())


def _cells(axis: Axis) -> AxisScale:
    """Return an axis of cells, with ticks in the middle of cells."""
    count = len(axis.values)
    indices = range(count) if axis.labels else tick_indices(axis.values)
    ticks = tuple((float(i), tick_text(axis, i)) for i in indices)
    return AxisScale(with_unit(axis.name, axis.unit), -0.5, count - 0.5, ticks)


def tick_text(axis: Axis, index: int) -> str:
    """Return the label of the tick at one value of an axis."""
    return axis.labels[index] if axis.labels else short(axis.values[index])


def _chart(panel: Lines) -> Chart:
    bands = [t.tolist() for line in panel.lines for t in (line.values, line.low, line.high) if t is not None]
    bands += [[value] for value, _ in panel.levels]
    if panel.apart and panel.y_log:  # a dot on the axis would be hidden
        bands.append([min(v for band in bands for v in band if v > 0) / 2])
    low, high, ticks = (log_limits if panel.y_log else linear_limits)(bands)
    return Chart(
        panel,
        _across(panel.x, panel.marks),
        AxisScale(
            with_unit(panel.y_name, panel.y_unit, "log scale" if panel.y_log else ""),
            low,
            high,
            with_texts(ticks, log=panel.y_log),
            panel.y_log,
        ),
        tuple(_curve(panel, i) for i in range(len(panel.lines))),
    )


def _across(axis: Axis, marks: Sequence[Tick]) -> AxisScale:
    """Return the horizontal axis from the first value to the last, with a tick at every value if there are few.

    If a mark is at the low end, the axis starts at a lower value, so that the mark's vertical line does not lie on
    the vertical axis.
    """
    low, high = min(axis.values), max(axis.values)
    high = high if high > low else low + (abs(low) or 1.0)
    if any(value <= low for value, _ in marks):
        low = low * (low / high) ** APART if axis.log else low - APART * (high - low)
    if axis.labels or (axis.log and len(axis.values) <= TICKED):
        ticks = tuple((value, tick_text(axis, i)) for i, value in enumerate(axis.values))
    elif axis.log:
        ticks = with_texts([t for t in log_limits([[low], [high]])[2] if low <= t <= high], log=True)
    else:
        integers = all(float(v).is_integer() for v in axis.values)
        ticks = with_texts([t for t in round_steps(low, high) if not integers or float(t).is_integer()])
    return AxisScale(with_unit(axis.name, axis.unit, "log scale" if axis.log else ""), low, high, ticks, axis.log)


def _curve(panel: Lines, index: int) -> Curve:
    """Return a line with a colour, a dash and a marker. They depend on the line's encoding or, if the line shows no
    encoding, on ``index``.
    """
    line = panel.lines[index]
    if not line.encoding:
        return Curve(line, f"series-{index % len(SERIES)}", DASHES[index % len(DASHES)], "o")
    encodings = [other.encoding for other in panel.lines]
    look = style(line.encoding, encodings)
    return Curve(line, token(line.encoding, encodings), look.dash, look.marker)


def _disc(panel: Plane) -> Disc:
    vectors = tuple(
        Vector(
            arrow,
            arrow.role or f"series-{i % len(SERIES)}",
            arrow.word or (first if len(first := arrow.name.split()[0]) <= 2 else ""),
            arrow.text or f"({fixed(arrow.x)}, {fixed(arrow.y)})",
        )
        for i, arrow in enumerate(panel.arrows)
    )
    return Disc(panel, vectors, with_texts((-panel.limit, 0.0, panel.limit)))


def round_steps(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` + 1 round values from low to high, in steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, 1 + math.floor(high / step + 1e-9))]


def tick_indices(values: Sequence[float]) -> list[int]:
    """Return the indices of ticks on an ascending axis, at round values or evenly spaced."""
    if len(values) <= TICKED:
        return list(range(len(values)))
    wanted = round_steps(min(values), max(values))
    indices = [i for i, value in enumerate(values) if value in wanted]
    return indices if len(indices) >= 3 else list(range(0, len(values), math.ceil(len(values) / 6)))


def linear_limits(curves: Sequence[Sequence[float]]) -> tuple[float, float, list[float]]:
    """Return the ends and the ticks of a linear axis; the ends are the nearest round numbers that enclose the
    data.
    """
    finite = [v for curve in curves for v in curve if math.isfinite(v)] or [0.0, 1.0]
    steps = round_steps(min(finite), max(finite))
    gap = steps[1] - steps[0] if len(steps) > 1 else 1.0
    low, high = math.floor(min(finite) / gap + 1e-9) * gap, math.ceil(max(finite) / gap - 1e-9) * gap
    high = high if high > low else low + (abs(low) or 1.0)
    return low, high, round_steps(low, high)


def log_limits(curves: Sequence[Sequence[float]]) -> tuple[float, float, list[float]]:
    """Return the ends and the ticks of a logarithmic axis.

    Values that are not positive are omitted. Values more than ``DEEPEST`` powers of ten below the top are cut off,
    unless a whole curve is that low. A float32 just below a power of ten counts as that power.
    """
    positive = [[v for v in curve if math.isfinite(v) and v > 0] for curve in curves]
    positive = [curve for curve in positive if curve] or [[1.0]]
    high = max(map(max, positive))
    low = max(min(map(min, positive)), min(high / 10**DEEPEST, min(map(max, positive)) / 3))
    for mantissas in MANTISSAS:
        first, last = math.floor(math.log10(low) + 1e-6), math.ceil(math.log10(high) - 1e-6)
        places = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
        start = max((p for p in places if p <= low * (1 + 1e-6)), default=places[0])
        end = min((p for p in places if p >= high * (1 - 1e-6)), default=places[-1])
        ticks = [p for p in places if start <= p <= max(end, start)]
        if len(ticks) >= ENOUGH:
            break
    else:
        if low < high:  # the axis is so short that a logarithm is nearly a straight line
            return linear_limits([[low, high]])
        if len(ticks) == 1:
            ticks = [start, start * 10]
    return ticks[0], ticks[-1], [float(f"{t:.3g}") for t in ticks[:: math.ceil(len(ticks) / MOST)]]


def with_texts(values: Sequence[float], *, log: bool = False) -> tuple[tuple[float, str], ...]:
    """Return ticks at these values with labels. On a long logarithmic axis, all labels are powers of ten."""
    decades = (
        log
        and all(math.log10(value).is_integer() for value in values)
        and not 1e-3 <= min(values) <= max(values) <= 1e4
    )
    return tuple((value, power(value) if decades else short(value)) for value in values)
