"""Two ranks whose encodings FSDP2 shards: at() outside of a forward is refused, or gathers where that is said."""

from pathlib import Path

import pytest
import torch.multiprocessing as mp

from support.fsdp_ranks import rank_of_two


@pytest.mark.slow
def test_encodings_that_are_groups_of_their_own_train_as_unsharded_ones(tmp_path: Path) -> None:
    mp.spawn(rank_of_two, (str(tmp_path / "ranks"),), nprocs=2)
