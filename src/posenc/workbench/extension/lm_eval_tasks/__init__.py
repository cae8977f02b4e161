"""The forced-choice tasks for lm-evaluation-harness. Pass ``FOLDER`` as the harness's ``--include_path``."""

from pathlib import Path

FOLDER = Path(__file__).parent
