"""The state of a training over several processes: each writes its part, and any number of processes reads it."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from posenc.workbench.run.checkpoint import State, Trained, folders, remove, unwritten


class ShardedState(State):
    """As ``State``, in folders beside its path, ``<run>.<steps>.dcp``; the newest complete one counts.

    A folder is complete when it has its ``.metadata``, which is written last.
    """

    def __init__(
        self,
        path: Path | None,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
        first: bool = True,
    ) -> None:
        super().__init__(path, model, optimiser, generator)
        self.first = first

    def load(self) -> Trained:
        newest = max(folders(self.path), key=_steps, default=None)
        if newest is None:
            return Trained()
        values = self._values(Trained())
        with warnings.catch_warnings():  # it says that one process is one process
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            dcp.load(values, checkpoint_id=newest)
        set_state_dict(
            self.model, self.optimiser, model_state_dict=values["model"], optim_state_dict=values["optimiser"]
        )
        self.generator.set_state(values["generator"])
        return Trained(**json.loads(values["trained"]))

    def save(self, trained: Trained) -> None:
        """Write the state; every process calls it at the same step."""
        if self.path is None:
            return
        older = folders(self.path)
        target = self.path.with_suffix(f".{len(trained.losses)}.dcp")
        try:
            dcp.save(self._values(trained), checkpoint_id=target)
        except (OSError, dcp.api.CheckpointException) as error:
            raise unwritten("the state of a run", target, error) from error
        remove([folder for folder in older if folder != target] if self.first else [])

    def _values(self, trained: Trained) -> dict[str, Any]:
        model, optimiser = get_state_dict(self.model, self.optimiser)
        generator = self.generator.get_state()
        text = json.dumps(asdict(trained))
        return {"model": model, "optimiser": optimiser, "generator": generator, "trained": text}


def _steps(folder: Path) -> int:
    return int(folder.suffixes[-2].removeprefix("."))
