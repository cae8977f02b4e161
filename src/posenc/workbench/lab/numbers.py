"""How numbers are written on the page: a true minus, thin spaces, powers of ten, and ticks at round values."""

import math
from collections.abc import Sequence

THIN, MINUS = "\u202f", "−"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float, digits: int = 3) -> str:
    """With ``digits`` decimals; in powers of ten where those would show nothing of it, or too much."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    if value != 0 and (abs(value) < 0.5 * 10**-digits or abs(value) >= 1e9):
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}".replace("-", MINUS)
    text = f"{value:,.{digits}f}".replace(",", THIN)
    return text.replace("-", MINUS) if float(f"{value:.{digits}f}") else text.replace("-", "")


def short(value: float) -> str:
    """As short as it is exact to 6 digits: for ticks, positions and table headings."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if (magnitude >= 1e5 and math.log10(magnitude).is_integer()) or magnitude < 1e-4:
        mantissa, exponent = f"{value:.0e}".split("e")
        power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
        return {"1": power, "-1": MINUS + power}.get(mantissa, f"{mantissa}·{power}").replace("-", MINUS)
    if float(value).is_integer():
        return (f"{int(value):,}" if magnitude >= 1e4 else str(int(value))).replace(",", THIN).replace("-", MINUS)
    return f"{value:.6g}".replace("-", MINUS)


def round_steps(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` + 1 round values (1, 2 or 5 times a power of ten apart) from low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def decades(low: float, high: float, most: int = 7) -> list[float]:
    """Powers of ten from low to high, every one or every n-th so that at most ``most`` remain."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    return [10.0**e for e in range(first, last + 1, stride)]


def along(values: Sequence[float], most: int = 6) -> list[int]:
    """Indices of an ascending axis where a tick reads well: the round values that it holds, or even places."""
    if len(values) <= most + 2:
        return list(range(len(values)))
    wanted = round_steps(min(values), max(values), most)
    at = {value: i for i, value in enumerate(values)}
    found = [at[w] for w in wanted if w in at]
    if len(found) >= 3:
        return found
    stride = math.ceil(len(values) / most)
    return list(range(0, len(values), stride))
