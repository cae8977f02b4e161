"""The generated files of the lab: answers of the first page, and thumbnails of rooms and of states to try."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from posenc.pictures.compose import compose
from posenc.pictures.palette import PICTURE
from posenc.pictures.scene import Chart, Disc, Map
from posenc.teaching.lab import export, page
from posenc.teaching.lab.rooms import ROOMS, Stage, find

STATIC = Path(page.__file__).parent / "static"
WIDE, TALL = 160, 80


def first() -> str:
    """Return the answers of the first page's stage as a script."""
    return export.script_of(page.HERO, export.packed(find(page.HERO))[0])


def thumbnails() -> dict[str, str]:
    """Return small pictures of every room's first stage and of every state to try, in colours that the page
    defines.
    """
    stages = {stage.question: stage for room in ROOMS for stage in room.stages if not stage.fresh}
    defaults = {name: panels_of(stage, {}) for name, stage in stages.items()}
    drawings = {
        room.name: wrapped(defaults[room.stages[0].question][0]) for room in ROOMS if not room.stages[0].fresh
    }
    for name, stage in stages.items():
        tried = [panels_of(stage, state) for _, state in stage.tries]
        drawings |= {f"{name}-{i}": first_change(panels, defaults[name]) for i, panels in enumerate(tried, 1)}
    curves = "".join(curve([0.3 * i * share for i in range(5)], name) for share, name in LINES)
    return drawings | {"results": wrapped(curves), "check": wrapped(QUESTION), "pictures": wrapped(patched())}


LINES = ((0.1, "encoding-alibi"), (0.35, "encoding-nope"), (0.75, "encoding-rotary"))
QUESTION = (
    "".join(
        f'<rect x="{24 if at == 1 else 34}" y="{12 + 20 * at}" width="{112 if at == 1 else 92}" height="15" rx="2" '
        f'fill="none" stroke="var(--{"accent" if at == 1 else "edge"})" stroke-width="2"/>'
        for at in range(3)
    )
    + '<path class="stroke encoding-rotary" d="M112 39l5 5 9-11"/>'
)
"""A picture of a card with three answers, of which the middle answer is selected."""


def patched() -> str:
    """Return the cat of the room of pictures as a few shapes, with the grid that cuts the picture."""
    shapes = {
        0: f'<rect width="{WIDE}" height="{TALL}"',
        3: '<circle cx="122" cy="19" r="9"',
        4: '<path d="M0 45Q25 32 55 46T110 44T160 38V80H0Z"',
        6: '<path d="M0 62Q70 48 160 60V80H0Z"',
        8: '<path d="M58 80Q50 52 66 46Q56 38 60 16L68 25H80L88 16Q92 38 82 46Q98 52 90 80Z"',
        10: '<path d="M66 35h5M77 35h5" stroke-width="4" stroke="var(--reference)"',
    }
    cuts = "".join(f"M{at} 0V{TALL}" for at in range(20, WIDE, 20)) + f"M0 20H{WIDE}M0 40H{WIDE}M0 60H{WIDE}"
    painted = "".join(f'{shape} fill="{PICTURE[colour]}"/>' for colour, shape in shapes.items())
    return f'{painted}<path d="{cuts}" stroke="{PICTURE[2]}"/>'


def first_change(panels: Sequence[str], defaults: Sequence[str]) -> str:
    """Return the first panel that differs from the stage's default, or the first panel if none differs."""
    changed = (panel for panel, default in zip(panels, defaults, strict=False) if panel != default)
    return wrapped(next(changed, panels[0]))


def panels_of(stage: Stage, state: Mapping[str, str]) -> list[str]:
    return [shapes(panel) for panel in compose(stage.answer(dict(state)))]


def shapes(panel: Map | Chart | Disc) -> str:
    if isinstance(panel, Map):
        return cells(panel)
    return chart(panel) if isinstance(panel, Chart) else disc(panel)


def wrapped(inside: str) -> str:
    return f'<svg class="thumbnail" viewBox="0 0 {WIDE} {TALL}" aria-hidden="true">{inside}</svg>\n'


def cells(panel: Map) -> str:
    values, bar = panel.heatmap.values, panel.bar
    rows, columns = (min(most, n) for most, n in zip((12, 32), values.shape, strict=True))
    wide, tall = WIDE / columns, TALL / rows
    outlines = defaultdict[tuple[str, float], str](str)
    for r in range(rows):
        for c in range(columns):
            value = float(values[r * values.shape[0] // rows, c * values.shape[1] // columns])
            share = round(abs(value) / bar.high if bar.high > 0 else abs(value / bar.low), 1)
            kind = "much" if panel.heatmap.scale == "magnitude" else "plus" if value > 0 else "minus"
            if share > 0:
                outlines[kind, min(1.0, share)] += f"M{c * wide:g} {r * tall:.3g}h{wide:g}v{tall:.3g}h{-wide:g}z"
    return "".join(
        f'<path class="{kind}" fill-opacity="{share}" d="{d}"/>' for (kind, share), d in sorted(outlines.items())
    )


def curve(values: list[float], name: str, joint: str = "L") -> str:
    places = [f"{10 + 140 * i / max(1, len(values) - 1):.1f} {70 - 60 * v:.1f}" for i, v in enumerate(values)]
    return f'<path class="stroke {name}" d="M{joint.join(places)}h0"/>'


def chart(panel: Chart) -> str:
    shapes = []
    for drawn in panel.curves:
        values = drawn.line.values.tolist()
        shares = [share for v in values[:: max(1, len(values) // 60)] if (share := panel.y.place(v)) is not None]
        shapes.append(curve(shares, drawn.colour, "h0M" if panel.lines.apart else "L"))
    return "".join(shapes)


def disc(panel: Disc) -> str:
    shapes = []
    for vector in panel.vectors:
        if not vector.arrow.ghost:
            x, y = (34 * v / panel.plane.limit for v in (vector.arrow.x, vector.arrow.y))
            shapes.append(f'<path class="stroke {vector.colour}" d="M80 40L{80 + x:.1f} {40 - y:.1f}"/>')
    return '<circle cx="80" cy="40" r="27" class="orbit"/>' + "".join(shapes)


def files() -> dict[Path, str]:
    """Return all generated files with their texts."""
    texts = {STATIC / "thumbnails" / f"{name}.svg": text for name, text in thumbnails().items()}
    return texts | {STATIC / "first.js": first()}
