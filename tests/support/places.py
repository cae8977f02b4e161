"""Where this repository and the files of tests are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "tests" / "data" / "configs"
