"""The example study that comes with posenc: what the lab shows until there is a study of one's own."""

from pathlib import Path

EXAMPLE = Path(__file__).with_name("example_study")
"""Its folder: a ledger, and weights in 16 bits with their hashes. ``tools/example.py`` makes it."""
LABEL = "the example that comes with posenc; “posenc compare” makes your own"


def shown(study: Path) -> Path:
    """The study whose results are shown: this one, or the example where it has no ledger yet."""
    return study if (study / "ledger.sqlite").exists() else EXAMPLE
