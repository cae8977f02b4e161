"""A Ray cluster of this machine's processes, a head of one core; others are added to it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.launch.ray import QUIET

ROOT = Path(__file__).parents[2]
MACHINE = {"num_cpus": 1, "num_gpus": 2, "object_store_memory": 80 * 2**20, "include_log_monitor": False}
HEAD = {"include_dashboard": False, "no_monitor": True}
"""What watches a cluster is no part of these tests, and costs as much as they do."""


@contextmanager
def running() -> Iterator[Any]:
    """The cluster; inside, ``RAY_ADDRESS`` names it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT / 'tests'}")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv(*QUIET)
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**MACHINE, **HEAD})
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        sys.modules["ray"].shutdown()
        made.shutdown()
