"""Writes the tables of presets and settings into docs/studies.md, from where each is declared."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from posenc.commands.options import PANELS
from posenc.workbench.run.settings import declared
from posenc.workbench.study.presets import PRESETS

PAGE = Path(__file__).parents[1] / "docs" / "studies.md"


def settings() -> Iterator[str]:
    """A table a group."""
    for group, title in PANELS.items():
        yield from (f"### {title}", "", "| setting | means | range | default |", "| --- | --- | --- | --- |")
        default = {each.name: each.default for each in fields(group)}
        for name, setting in declared(group).items():
            shown = "the task's own" if setting.by_task else _shown(default[name])
            yield f"| `{name}` | {setting.help} | {setting.range} | {shown} |"
        yield ""


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def presets() -> Iterator[str]:
    """The table of presets."""
    yield from ("| preset | what it is | cost |", "| --- | --- | --- |")
    for name, each in PRESETS.items():
        yield f"| `{name}` | {each.purpose} | {each.cost} |"


def page(text: str) -> str:
    """The page with its tables."""
    for mark, lines in (("presets", presets()), ("settings", settings())):
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        after = rest.partition(f"<!-- /{mark} -->")[2]
        body = "\n".join(lines).rstrip()
        text = f"{before}<!-- {mark} -->\n\n{body}\n\n<!-- /{mark} -->{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
