"""The generated files of the lab: answers of the first page, and thumbnails of rooms."""

from pathlib import Path

from posenc.pictures.compose import compose
from posenc.pictures.palette import PICTURE
from posenc.pictures.scene import Bar, Chart, Disc, Map
from posenc.teaching.lab import export, page
from posenc.teaching.lab.rooms import ROOMS, find

STATIC = Path(page.__file__).parent / "static"
WIDE, TALL = 160, 80


def first() -> str:
    """Return the answers of the first page's stage as a script."""
    return export.script_of(page.HERO, export.packed(find(page.HERO))[0])


def thumbnails() -> dict[str, str]:
    """Return a small picture of every room's first stage, in colours that the page defines."""
    drawings = {room.name: drawn(room.stages[0].question) for room in ROOMS if not room.stages[0].fresh}
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


def drawn(question: str) -> str:
    picture = compose(find(question).answer({}))
    panel = picture.panels[0]
    if isinstance(panel, Map):
        return wrapped(cells(panel, picture.bars[panel.bar]))
    return wrapped(chart(panel) if isinstance(panel, Chart) else disc(panel))


def wrapped(inside: str) -> str:
    return f'<svg viewBox="0 0 {WIDE} {TALL}" aria-hidden="true">{inside}</svg>\n'


def cells(panel: Map, bar: Bar) -> str:
    rows, columns = (min(most, n) for most, n in zip((12, 32), panel.values.shape, strict=True))
    wide, tall = WIDE / columns, TALL / rows
    shapes = []
    for r in range(rows):
        for c in range(columns):
            value = float(panel.values[r * panel.values.shape[0] // rows, c * panel.values.shape[1] // columns])
            share = abs(value) / bar.high if bar.high > 0 else abs(value / bar.low)
            kind = "much" if bar.scale == "magnitude" else "plus" if value > 0 else "minus"
            place = f'x="{c * wide:.1f}" y="{r * tall:.1f}" width="{wide:.1f}" height="{tall:.1f}"'
            if share > 0.04:
                shapes.append(f'<rect {place} class="{kind}" fill-opacity="{min(1.0, share):.2f}"/>')
    return "".join(shapes)


def curve(values: list[float], name: str, joint: str = "L") -> str:
    places = [f"{10 + 140 * i / (len(values) - 1):.1f} {70 - 60 * v:.1f}" for i, v in enumerate(values)]
    return f'<path class="stroke {name}" d="M{joint.join(places)}h0"/>'


def chart(panel: Chart) -> str:
    shapes = []
    for line in panel.curves:
        every = max(1, len(line.values) // 60)
        shares = [share for v in line.values[::every] if (share := panel.y.place(v)) is not None]
        shapes.append(curve(shares, line.colour, "h0M" if panel.apart else "L"))
    return "".join(shapes)


def disc(panel: Disc) -> str:
    shapes = []
    for vector in panel.vectors:
        if not vector.arrow.ghost:
            x, y = (34 * v / panel.limit for v in (vector.arrow.x, vector.arrow.y))
            shapes.append(f'<path class="stroke {vector.colour}" d="M80 40L{80 + x:.1f} {40 - y:.1f}"/>')
    return '<circle cx="80" cy="40" r="27" class="orbit"/>' + "".join(shapes)


def files() -> dict[Path, str]:
    """Return all generated files with their texts."""
    texts = {STATIC / "thumbnails" / f"{name}.svg": text for name, text in thumbnails().items()}
    return texts | {STATIC / "first.js": first()}
