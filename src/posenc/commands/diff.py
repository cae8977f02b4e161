"""`posenc diff`: compares the position settings of two models, or of one model in two programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from posenc.commands.positions import check_there, positions_of
from posenc.commands.screen import screen
from posenc.errors import InvalidArgument

if TYPE_CHECKING:
    from posenc.integrations.differences import Difference
    from posenc.integrations.position_table import PositionTable

SOURCES = (
    "a folder, a config.json, a .gguf file, any of these as a program interprets it (vllm@0.33.0:config.json), or "
    "as measured on a model built from it (measured:config.json)"
)

NOT_OF_A_DRAFT = ("layer_types", "head_dim", "query_dim", "window", "window_after", "softmax_factor")


def diff(
    ours: Annotated[str, typer.Argument(help=f"The first source: {SOURCES}, or a fingerprint.")],
    theirs: Annotated[
        str | None,
        typer.Argument(
            help="The second source, of any kind allowed for ours, or a .json file of keys that override ours."
        ),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            help="Compare ours with this draft model; also print the first position at which the two differ."
        ),
    ] = None,
    positions: Annotated[
        str | None,
        typer.Option(
            help="Positions at which to compare cos and scores; by default 0,L/2,L,4L (L: trained length of ours)."
        ),
    ] = None,
    as_type: Annotated[
        str | None,
        typer.Option(help="The model family to assume if the model_type is defined by code on the Hub."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print, as JSON, all differences, the numerical errors that they cause, and notes."
        ),
    ] = False,
) -> None:
    """Compare position settings; exit with status 1 if they differ: `posenc diff config.json vllm:config.json`."""
    check_there(*(source for source in (ours, theirs, draft) if source is not None))
    from posenc.integrations.differences import differences, parting
    from posenc.integrations.fingerprint import is_stated
    from posenc.integrations.sources import table

    other = theirs if draft is None else draft
    if other is None or None not in (theirs, draft):
        raise InvalidArgument("posenc diff compares two sources; pass either a second source or --draft DRAFT")
    for stated, source, name in ((ours, other, "theirs"), (other, ours, "ours")):
        if is_stated(stated):
            compare_fingerprint(stated, table(source, as_type=as_type), name, as_json)
    at = positions_of(positions)
    first, second = table(ours, other, as_type), table(other, ours, as_type)
    parted = differences(first, second, at)
    if draft is not None:  # a different model, with its own heads and layers
        parted = [one for one in parted if one.what not in NOT_OF_A_DRAFT]
    notes = [*notes_on("ours", first), *notes_on("theirs", second)]
    if draft is not None and parted:
        notes.append(parting(first, second))
    if as_json:
        typer.echo(json_of(parted, notes))
    else:
        lines = [*map(str, parted)] or [
            "no differences" + " in the settings that were compared" * bool(first.not_asked or second.not_asked)
        ]
        screen(soft_wrap=True).print("\n".join([*lines, *notes]), markup=False, highlight=False)
    if parted:
        raise typer.Exit(1)


def compare_fingerprint(stated: str, table: "PositionTable", name: str, as_json: bool) -> NoReturn:
    """Print whether the table's fingerprint equals ``stated``, and exit with status 1 if it does not."""
    from posenc.integrations.differences import Difference
    from posenc.integrations.fingerprint import fingerprint

    mark = fingerprint(table)
    text = "the same position settings" if mark == stated else f"different position settings: {name} has {mark}"
    values = (stated, mark) if name == "theirs" else (mark, stated)
    parted = [Difference("fingerprint", None, *values, text)] * (mark != stated)
    typer.echo(json_of(parted, []) if as_json else text)
    raise typer.Exit(mark != stated)


def json_of(differences: "Sequence[Difference]", notes: Sequence[str]) -> str:
    """Return the JSON that `--json` prints."""
    return json.dumps(
        {"differences": [asdict(one) for one in differences], "notes": notes}, ensure_ascii=False, indent=1
    )


def notes_on(name: str, table: "PositionTable") -> list[str]:
    """Return the notes on a position table as lines. The first line names the part of the program that was not
    checked, if there is such a part.
    """
    unasked = [f"not asked: {table.not_asked}"] if table.not_asked else []
    return [f"note on {name}: {note}" for note in (*unasked, *table.notes)]
