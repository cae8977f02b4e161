"""The part of docs/models.md that the walk writes: the classes, and every type with its reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

CLASSES = {
    "read and equal": "`posenc inspect` reads the config, and the model does what was read",
    "read and different": "the model does something else than was read",
    "measured only": "`posenc inspect --measure` says what the model does; its config is not read",
    "has no positions": "its attention, if it has any, knows no positions of tokens",
    "cannot be built": "no small model of it could be built and run on token ids",
}
START, END = "<!-- walk -->", "<!-- end of walk -->"


def page(version: str, found: Sequence[Mapping[str, object]], total: int, path: Path) -> str:
    """Write the part into the page; the answer in one line."""
    counts = Counter(str(one["class"]) for one in found)
    turning = [one for one in found if one.get("turns")]
    read = sum(one["class"] == "read and equal" for one in turning)
    lines = [
        f"Of the {len(found)} model types of transformers {version} ({date.today():%d %B %Y}, "
        f"`python -m tools.walk`), {len(turning)} turn queries and keys as measured on token ids, and {read} of "
        f"those ({read / max(1, len(turning)):.0%}) are read as they were measured.",
        *_rest(total - len(found)),
        "",
        "| class | types | |",
        "| --- | ---: | --- |",
        *(f"| {name} | {counts[name]} | {what} |" for name, what in CLASSES.items()),
    ]
    for name in CLASSES:
        own = [one for one in found if one["class"] == name]
        if own:
            lines += ["", f"### {name.capitalize()}", "", "| type | measured | |", "| --- | --- | --- |"]
            lines += [_row(one) for one in own]
    text = path.read_text()
    before = text.split(START)[0].rstrip()
    path.write_text(f"{before}\n\n{START}\n\n" + "\n".join(lines) + f"\n\n{END}\n")
    return f"wrote {path.name}: " + ", ".join(f"{counts[name]} {name}" for name in CLASSES)


def _rest(count: int) -> list[str]:
    if not count:
        return []
    return ["", f"{count} more {'is' if count == 1 else 'are'} still to be walked: the command goes on with them."]


def _row(one: Mapping[str, object]) -> str:
    cells = (str(one.get(key) or "").replace("|", "\\|") for key in ("measured", "why"))
    return f"| `{one['type']}` | {' | '.join(cells)} |"
