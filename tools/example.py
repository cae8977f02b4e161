"""Make the example study that comes with posenc: ``tools/example.py [STUDY]``; it takes minutes on two cores.

It keeps the weights of the five language models, and learned tables from other tasks, which the lab shows next to
their initial values; weights are in 16 bits, with hashes. ``twice`` is a separate study: the language
models trained at twice the length on as many bytes, as the baseline for reading past the trained length.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import date
from hashlib import sha256
from pathlib import Path

from safetensors.torch import save_file

from posenc.teaching.lessons.example import EXAMPLE
from posenc.workbench.run.checkpoint import FOLDER, load_weights
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.machine import hardware

COMMANDS = {
    "": ("--tasks", "language,ordering,needle"),
    "twice": ("--tasks", "language", "--train-length", "256", "--batch", "8", "--lengths", "1,2,4"),
}


def keep(study: Path, example: Path) -> None:
    """Copy the parts of a study that the lab shows; the ledger becomes a single file without a log."""
    shutil.rmtree(example, ignore_errors=True)
    (example / FOLDER).mkdir(parents=True)
    with Ledger(study) as ledger:
        plans = [run.plan for run in ledger.runs()]
    hashes = {}
    for plan in plans:
        if plan.task == "language" or plan.encoding.startswith("learned"):
            path = example / FOLDER / f"{plan.id}.safetensors"
            weights = load_weights(study, plan)
            save_file({k: v.half() if v.is_floating_point() else v for k, v in weights.items()}, path)
            path.chmod(0o644)  # safetensors creates files that only the owner can read
            hashes[path.name] = {"run": plan.name, "sha256": sha256(path.read_bytes()).hexdigest()}
    record = {
        "command": "python tools/example.py",
        "date": date.today().isoformat(),
        "hardware": hardware(),
        "dtype": "float16",
        "files": hashes,
    }
    (example / "weights.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    ledger_path = example / "ledger.sqlite"
    with closing(sqlite3.connect(study / "ledger.sqlite")) as db:
        db.execute("VACUUM INTO ?", (str(ledger_path),))
    with closing(sqlite3.connect(ledger_path, isolation_level=None)) as db:
        db.execute("DELETE FROM steps")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("VACUUM")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in COMMANDS.items():
            study = Path(sys.argv[1] if len(sys.argv) > 1 else folder) / name
            words = ["compare", *settings, "--output", str(study)]
            subprocess.run([sys.executable, "-m", "posenc", *words], check=True)
            keep(study, EXAMPLE / name)
