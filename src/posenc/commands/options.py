"""Options of the command line made from the settings of a study: the same words, units and ranges."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc.workbench.run.settings import ByTask, Grid, Model, Reading, Setting, Training, declared

PANELS = {Grid: "What is compared", Reading: "Text", Model: "Model", ByTask: "By task", Training: "Training"}
"""The groups of settings, as the help heads them."""

BY_TASK = "; for all tasks, or language=…,needle=…"


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every setting of a study, in place of its ``**said``.

    An option that is not given is None: the preset or the file decides.
    """
    own = inspect.signature(command)
    kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    made = [_option(name, s, title) for group, title in PANELS.items() for name, s in declared(group).items()]
    command.__signature__ = own.replace(parameters=[*kept, *made])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*kept, *made)}
    return command


def _option(name: str, setting: Setting, panel: str) -> inspect.Parameter:
    kind = setting.kind if setting.kind in (bool, Path) and not setting.many else str
    help = f"{setting.help} ({setting.range})" if setting.range else setting.help
    option = typer.Option(help=help + (BY_TASK if setting.by_task else ""), rich_help_panel=panel)
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def values(said: dict[str, Any]) -> dict[str, Any]:
    """What the command line says, as a study takes it."""
    known = {name: setting for group in PANELS for name, setting in declared(group).items()}
    read = {name: known[name].read(name, word) for name, word in said.items() if isinstance(word, str)}
    return {**said, **read}
