"""The tasks by forced choice for lm-evaluation-harness: a folder for its ``--include_path``, ``FOLDER``."""

from pathlib import Path

FOLDER = Path(__file__).parent
