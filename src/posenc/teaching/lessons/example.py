"""The example study that comes with posenc, shown by the lab until the user has a study."""

from pathlib import Path

EXAMPLE = Path(__file__).with_name("example_study")
"""Its folder, with a ledger, and 16-bit weights with their hashes. ``tools/example.py`` makes it."""
LABEL = "the example that comes with posenc; “posenc compare” makes your own"


def shown(study: Path) -> Path:
    """The folder of the shown study: this one, or the example if it has no ledger yet."""
    return study if (study / "ledger.sqlite").exists() else EXAMPLE
