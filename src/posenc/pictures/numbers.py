"""Number formatting for display: minus signs, thin spaces, powers of ten, fractions, durations and units."""

import math

THIN, MINUS = "\u202f", "−"
MARKED = 10_000
"""Numbers of at least this magnitude have thin spaces between thousands."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float, digits: int = 3) -> str:
    """Format a number with ``digits`` decimals, or in scientific notation if it is too small or too large."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    if value != 0 and (abs(value) < 0.5 * 10**-digits or abs(value) >= 1e9):
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}".replace("-", MINUS)
    return plain(value, digits)


def plain(value: float, digits: int) -> str:
    """Format a number with ``digits`` decimals. A number that rounds to zero has no sign."""
    text = f"{value:,.{digits}f}".replace(",", THIN) if abs(value) >= MARKED else f"{value:.{digits}f}"
    return text.replace("-", MINUS) if float(f"{value:.{digits}f}") else text.replace("-", "")


def readout(value: float | str) -> str:
    """Format a value of a readout. Strings are unchanged, integers have no decimals, and other numbers have 3
    decimals, or more if their absolute value is at least 0.0005 and below 0.1."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return short(value)
    return fixed(value, 3 - math.ceil(math.log10(abs(value))) if 5e-4 <= abs(value) < 0.1 else 3)


def signed(value: float) -> str:
    """Format a difference with three decimals and a plus or minus sign; zero has no sign."""
    text = plain(value, 3)
    return f"+{text}" if value > 0 and text != plain(0, 3) else text


def count(value: int) -> str:
    """Format an integer with all its digits, never in scientific notation."""
    return plain(value, 0)


def seconds(value: float) -> str:
    """Format a duration, such as ``2 min 05 s``."""
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def power(value: float) -> str:
    """Format a power of ten, with an exponent unless the number is 1 or 10."""
    return short(value) if value in (1, 10) else f"10{str(round(math.log10(value))).translate(SUPERSCRIPTS)}"


def fraction(value: float) -> str:
    """Format a slope between 0 and 1 as 1/n: ``1/256``, or ``1/1.41`` if n is not whole."""
    over = 1 / value
    return f"1/{count(round(over)) if math.isclose(over, round(over)) else f'{over:.3g}'}"


def short(value: float) -> str:
    """Format a number as the shortest string that is exact to 6 digits, for ticks, positions and table headings."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if (magnitude >= 1e5 and math.log10(magnitude).is_integer()) or magnitude < 1e-4:
        mantissa, exponent = f"{value:.0e}".split("e")
        power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
        return {"1": power, "-1": MINUS + power}.get(mantissa, f"{mantissa}·{power}").replace("-", MINUS)
    if float(value).is_integer():
        return plain(value, 0)
    return f"{value:.6g}".replace("-", MINUS)


def with_unit(name: str, *units: str) -> str:
    """Return ``name (unit, …)``, or only the name if there are no units."""
    units = tuple(filter(None, units))
    return f"{name} ({', '.join(units)})" if units else name
