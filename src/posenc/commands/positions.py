"""Positions as a command line states them."""

from posenc.errors import InvalidArgument


def positions_of(text: str | None) -> list[int] | None:
    """``"0,1,4095"`` as numbers; None where nothing is stated."""
    try:
        return None if text is None else [int(one) for one in text.split(",")]
    except ValueError as error:
        raise InvalidArgument(f"positions={text!r} must be numbers, such as 0,1,4095") from error
