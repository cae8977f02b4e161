"""The script for Slurm in docs/scale.md, run by bash with stand-ins of Slurm's commands."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from posenc.commands.app import app

GUIDE = Path(__file__).parents[3] / "docs" / "scale.md"
(SCRIPT,) = re.findall(r'^```sh title="study.sbatch"\n(.*?)^```$', GUIDE.read_text(), re.MULTILINE | re.DOTALL)
LINES = re.findall(r"^sbatch (.+)$", GUIDE.read_text(), re.MULTILINE)

STAND_INS = {
    "sbatch": """
export SLURM_JOB_ID=17 SLURM_JOB_NODELIST="node[3-4]" SLURM_NNODES=2 SLURM_GPUS_ON_NODE=8
while [ "${1#--}" != "$1" ]; do [ "$1" = --nodes ] && SLURM_NNODES=$2; shift 2; done
exec bash "$@" """,
    "scontrol": '[ "$*" = "show hostnames node[3-4]" ] && printf "node3\\nnode4\\n"',
    "srun": 'for node in $(seq "$SLURM_NNODES"); do "$@"; done',
    "ray": 'echo ray "$@"',
}
"""What each does with its arguments; ``srun`` runs a command once a node."""


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """An environment in which Slurm's commands are the stand-ins, in a folder with the script."""
    for name, body in STAND_INS.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)
    (tmp_path / "study.sbatch").write_text(SCRIPT)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_the_lines_of_the_guide_start_posenc_on_every_node(cluster: dict[str, str], tmp_path: Path) -> None:
    started = [
        subprocess.run(f"sbatch {line}", shell=True, cwd=tmp_path, env=cluster, capture_output=True, text=True)
        for line in LINES
    ]
    assert [(run.returncode, run.stderr) for run in started] == [(0, "")]
    (runs,) = (run.stdout.splitlines() for run in started)
    ray = "posenc compare --config study.toml --output study --device cuda --launcher ray --gpus 1"
    assert runs == [f"ray symmetric-run --address node3:6379 --min-nodes 2 -- {ray}"] * 2
    compare = get_command(app).commands["compare"]  # type: ignore[attr-defined]
    known = {name for option in compare.params for name in option.opts}
    assert set(re.findall(r"--[a-z]+", ray)) <= known


def test_an_allocation_without_gpus_is_refused(cluster: dict[str, str], tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[3-4]", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": ""}
    script = ["bash", "study.sbatch", "--config", "study.toml"]
    run = subprocess.run(script, cwd=tmp_path, env=cluster | slurm, capture_output=True, text=True)
    assert run.returncode == 1
    assert "ask for GPUs: --gpus-per-node" in run.stderr
