"""Options of the command line made from the settings of a study: the same words, units and ranges."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc.workbench.run.settings import ByTask, Grid, Model, Setting, TextSettings, Training, declared

PANELS = {Grid: "What is compared", TextSettings: "Text", Model: "Model", ByTask: "By task", Training: "Training"}
"""The groups of settings, as the help heads them."""

BY_TASK = "; for all tasks, or language=…,needle=…"


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every setting of a study, in place of its ``**settings``.

    An option that is not given is None: the preset or the file decides.
    """
    signature = inspect.signature(command)
    options = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    options += [_option(name, s, title) for group, title in PANELS.items() for name, s in declared(group).items()]
    command.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def _option(name: str, setting: Setting, panel: str) -> inspect.Parameter:
    kind = setting.kind if setting.kind in (bool, Path) and not setting.many else str
    help = f"{setting.help} ({setting.range})" if setting.range else setting.help
    option = typer.Option(help=help + (BY_TASK if setting.by_task else ""), rich_help_panel=panel)
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
