"""A Ray cluster on this machine: a head with one core, to which tests add nodes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from posenc.workbench.launch.ray import QUIET
from support.places import ROOT

MACHINE = {"num_cpus": 1, "num_gpus": 2, "object_store_memory": 80 * 2**20, "include_log_monitor": False}
HEAD = {"include_dashboard": False, "no_monitor": True}
"""The options of ``ray start``, without dashboard and monitor, which would take as much time as the tests."""


@contextmanager
def running() -> Iterator[Any]:
    """Run a cluster, and set ``RAY_ADDRESS`` to its address inside the block."""
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
