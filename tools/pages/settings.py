"""The tables of presets and settings in docs/studies.md, generated from their declarations."""

from dataclasses import fields

from posenc.commands.compare import PANELS
from posenc.workbench.run.settings import declared
from posenc.workbench.study.presets import PRESETS


def settings() -> str:
    """Return one table per group."""
    lines = []
    for group, title in PANELS.items():
        lines += [f"### {title}", "", "| setting | means | range | default |", "| --- | --- | --- | --- |"]
        default = {each.name: each.default for each in fields(group)}
        for name, setting in declared(group).items():
            shown = "the task's own" if setting.by_task else _shown(default[name])
            lines.append(f"| `{name}` | {setting.help} | {setting.range} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def presets() -> str:
    """Return the table of presets."""
    rows = (f"| `{name}` | {preset.purpose} | {preset.cost} |" for name, preset in PRESETS.items())
    return "\n".join(("| preset | what it is | cost |", "| --- | --- | --- |", *rows))
