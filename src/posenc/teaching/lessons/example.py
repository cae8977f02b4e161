"""The example study that comes with posenc. The lab shows it until the user has a study."""

from pathlib import Path

EXAMPLE = Path(__file__).with_name("example_study")
"""The folder of the example study, written by ``tools/example.py``: a ledger, and 16-bit weights with hashes."""
LABEL = "the example that comes with posenc; to train your own models, type: posenc compare"


def shown(study: Path) -> Path:
    """Return the folder of the study to show: ``study``, or the example study if ``study`` has no ledger yet."""
    return study if (study / "ledger.sqlite").exists() else EXAMPLE
