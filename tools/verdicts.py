"""Trains the grid behind the disputed claims and keeps its numbers; a stopped one goes on."""

import json
from datetime import date
from pathlib import Path

from posenc.teaching import claims
from posenc.teaching.claims.verdicts import Losses, measure, sentences
from posenc.workbench.run.machine import hardware, versions
from posenc.workbench.tasks.text import load

STORED = Path(claims.__file__).with_name("verdicts.json")


def write(losses: Losses) -> None:
    """Keep the losses with their date and command, and the sentences that they make."""
    record = {
        "date": date.today().isoformat(),
        "command": "python tools/verdicts.py",
        "hardware": hardware(),
        "versions": versions(),
        "sentences": sentences(losses),
        "losses": losses,
    }
    STORED.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[1] / "build" / "verdicts"
    write(
        measure(
            load(), folder, lambda run: print(run.plan.encoding, run.plan.train_length, run.plan.seed, flush=True)
        )
    )
