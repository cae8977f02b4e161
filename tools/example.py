"""Makes the example study that comes with posenc: ``tools/example.py [STUDY]``, some minutes of two cores.

Its text, Python's own documentation, need not be there where it is shown. Of the weights only learned tables are
kept, which the lab shows beside their beginnings.
"""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from posenc.teaching.lessons.example import EXAMPLE
from posenc.workbench.run.checkpoint import FOLDER
from posenc.workbench.run.ledger import Ledger

TASKS = ("language", "ordering", "needle")


def keep(study: Path) -> None:
    """Copy what the lab shows of a study, in one file without a log beside it."""
    shutil.rmtree(EXAMPLE, ignore_errors=True)
    (EXAMPLE / FOLDER).mkdir(parents=True)
    with Ledger(study) as ledger:
        tables = [run.plan.id for run in ledger.runs() if run.plan.encoding.startswith("learned")]
    for plan in tables:
        shutil.copy2(study / FOLDER / f"{plan}.safetensors", EXAMPLE / FOLDER)
    ledger_path = EXAMPLE / "ledger.sqlite"
    with closing(sqlite3.connect(study / "ledger.sqlite")) as db:
        db.execute("VACUUM INTO ?", (str(ledger_path),))
    with closing(sqlite3.connect(ledger_path, isolation_level=None)) as db:
        db.execute("DELETE FROM steps")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("VACUUM")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        study = Path(sys.argv[1] if len(sys.argv) > 1 else folder)
        words = ["compare", "--tasks", ",".join(TASKS), "--output", str(study)]
        subprocess.run([sys.executable, "-m", "posenc", *words], check=True)
        keep(study)
