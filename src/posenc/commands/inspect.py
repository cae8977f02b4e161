"""`posenc inspect`: explains in plain words what a model's config does with positions."""

import json
from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.positions import check_there
from posenc.commands.screen import screen
from posenc.errors import InvalidArgument


def inspect(
    path: Annotated[
        Path, typer.Argument(help="A config.json, the folder of a Hugging Face model, or a .gguf file.")
    ],
    base: Annotated[float | None, typer.Option(help="The rotary base, if the config lacks it.")] = None,
    as_type: Annotated[
        str | None,
        typer.Option(help="The model family to assume if the model_type is defined by code on the Hub."),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            help="Compare the config with measurements of a small random model; exit with status 1 if they differ."
        ),
    ] = False,
    programs: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Print the commands that serve the model with these programs, such as vllm@0.33.0,llama.cpp.",
        ),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="With --for, a scaling that replaces the config's scaling, such as 'yarn(4, 8192)', or 'yarn(4)' "
            "for the trained length."
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="With --for, the longest input in tokens; by default the scaling factor × trained length.", min=1
        ),
    ] = None,
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Print a line that is equal for equal position settings.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer (with --for, a list of answers) as JSON.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also draw the frequencies to this file (svg, png, pdf).")
    ] = None,
) -> None:
    """Explain what a config does with positions, and what can go wrong: `posenc inspect model/config.json`."""
    check_there(path)
    answers = {"--measure": measure, "--fingerprint": fingerprint, "--json": as_json, "--output": output}
    if len(several := [name for name, wanted in answers.items() if wanted]) > 1:
        raise InvalidArgument(f"{' and '.join(several)} cannot be combined; omit all but one of them")
    if programs is not None:
        if as_type is not None or measure or output is not None:
            raise InvalidArgument("--as-type, --measure and --output cannot be combined with --for; omit them")
        _for_programs(path, programs, scaling, base, max_length, fingerprint, as_json)
        return
    if scaling is not None or max_length is not None:
        raise InvalidArgument("--scaling and --max-length need --for; add programs, such as --for vllm")
    _config(path, base, as_type, measure, fingerprint, as_json, output)


def _for_programs(
    path: Path,
    programs: str,
    scaling: str | None,
    base: float | None,
    max_length: int | None,
    fingerprint: bool,
    as_json: bool,
) -> None:
    """Print the commands for these programs, or the fingerprints of the position settings that the programs use."""
    from posenc.integrations.fingerprint import fingerprint as mark
    from posenc.integrations.serving import REFUSED, in_words, serving
    from posenc.integrations.sources import table

    names = [name.strip() for name in programs.split(",")]
    if fingerprint:
        if (scaling, base, max_length) != (None, None, None):
            raise InvalidArgument(
                "--scaling, --base and --max-length cannot be combined with --fingerprint if --for is given; "
                "replace --fingerprint with --json, whose output includes the fingerprint"
            )
        typer.echo("\n".join(mark(table(f"{name}:{path}")) for name in names))
        return
    answers = [serving(name, path, scaling, base=base, max_length=max_length) for name in names]
    typer.echo(
        json.dumps(answers, ensure_ascii=False, indent=1) if as_json else "\n\n".join(map(in_words, answers))
    )
    if any(note.startswith(REFUSED) for answer in answers for note in answer["notes"]):
        raise typer.Exit(1)


def _config(
    path: Path,
    base: float | None,
    as_type: str | None,
    measure: bool,
    fingerprint: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Print the position settings that a config describes, or those that its model uses."""
    from posenc.integrations.fingerprint import fingerprint as mark
    from posenc.integrations.inspection import inspect as look
    from posenc.integrations.inspection import measured

    console = screen(soft_wrap=True)
    if measure:
        words, differs = measured(path, base=base, as_type=as_type)
        console.print(words)
        raise typer.Exit(differs)
    inspection = look(path, base=base, as_type=as_type)
    if fingerprint:
        typer.echo(mark(inspection.table))
        return
    if as_json:
        sentences = {name: getattr(inspection, name) for name in ("answer", "facts", "risks")}
        typer.echo(json.dumps({**sentences, "fingerprint": mark(inspection.table)}, ensure_ascii=False, indent=1))
        return
    positions = inspection.positions
    if output is not None and (positions.layout or not positions.rotary_recipes):
        raise InvalidArgument(f"--output '{output}' does not apply, because the model has no rotary frequencies")
    lines = [inspection.text()]
    if output is not None:
        from posenc.pictures.draw import draw, write
        from posenc.teaching.views.scaling import drawn

        rotary = positions.rotary
        view = drawn(
            rotary.get("scaling"),
            rotary.get("rotary_dim"),
            rotary.get("base"),
            positions.original_length,
            positions.max_length,
        )
        lines.append(f"wrote {write(draw(view), output)}")
    console.print("\n".join(lines))
