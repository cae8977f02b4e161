"""Parses positions, and checks that the files given to a command exist."""

from pathlib import Path

from posenc.errors import InvalidArgument

POSITIONS = range(2**31)
"""The positions that encodings accept."""


def positions_of(text: str | None) -> list[int] | None:
    """Parse ``"0,1,4095"`` into numbers of ``POSITIONS``; return None for None."""
    try:
        return None if text is None else [POSITIONS.index(int(one)) for one in text.split(",")]
    except ValueError as error:
        raise InvalidArgument(
            f"--positions {text!r} must be whole numbers from 0 to {POSITIONS[-1]}, such as 0,1,4095"
        ) from error


def check_there(*sources: str | Path) -> None:
    """Raise an error if a file is missing, before the modules that read files are imported.

    Args:
        sources: files to check, as ``path`` or ``program:path``. A fingerprint (``posenc1-…``) is not a file and is
            not checked.
    """
    from posenc.integrations.program_names import split

    for source in map(str, sources):
        path = split(source)[1]
        if not (source.startswith("posenc1-") or Path(path).exists()):
            raise InvalidArgument(
                f"{path} cannot be read (No such file or directory); pass a config.json on this "
                "machine, because posenc downloads nothing"
            )
