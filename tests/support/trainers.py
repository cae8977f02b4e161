"""Trains a small model of transformers for a few steps, for tests of callbacks."""

from pathlib import Path
from typing import Any

import torch
import transformers

ROWS = [dict.fromkeys(("input_ids", "labels"), torch.arange(at, at + 24) % 26) for at in range(8)]


def trained(folder: Path, model: Any, *callbacks: Any, **given: Any) -> Any:
    """Train a model for four steps by transformers' Trainer, and return the trainer."""
    arguments = transformers.TrainingArguments(
        str(folder / "out"),
        max_steps=4,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=ROWS, callbacks=[*callbacks], **given)
    trainer.train()
    return trainer
