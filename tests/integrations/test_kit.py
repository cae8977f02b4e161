"""The kit for kernel authors, run on public rotations, right and wrong."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read
from posenc.integrations.kit import kit
from support.places import CONFIGS

RUN = """
import os, sys
sys.modules["posenc"] = None
import pytest
for name in sys.argv[1:]:
    os.environ["PORT"] = f"my_kernel:{name}"
    print(name, int(pytest.main(["-q", "-p", "no:cacheprovider"])))
"""
COHERE = {
    "model_type": "cohere",
    "hidden_size": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "rope_theta": 10_000.0,
}
TRANSFORMERS = """
import json
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

rope = LlamaRotaryEmbedding(LlamaConfig(**json.loads({config!r})))

def rotate(x, positions, layer_type):
    cos, sin = rope(x.float(), positions)
    return apply_rotary_pos_emb(x.float(), x.float(), cos, sin)[0].to(x.dtype)
"""
LUCIDRAINS = """
import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

rope = RotaryEmbedding(64)

def rotated(x, rows, factor=1.0):
    freqs = torch.stack([rope(row) for row in rows])[:, None]
    return (factor * apply_rotary_emb(freqs, x.float())).to(x.dtype)

def rotate(x, positions, layer_type):
    return rotated(x, positions.float())

def counts_from_one(x, positions, layer_type):
    return rotated(x, positions.float() + 1)

def rounds_positions(x, positions, layer_type):
    return rotated(x, positions.to(torch.bfloat16).float())

def clamps_positions(x, positions, layer_type):
    return rotated(x, positions.float().clamp(max=8191))

def lengthens(x, positions, layer_type):
    return rotated(x, positions.float(), 1.01)
"""


def ran(folder: Path, port: str, *names: str) -> str:
    """What the kit's tests print of these functions of a port, where posenc cannot be imported."""
    (folder / "my_kernel.py").write_text(port)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = os.environ | {"PYTHONPATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", RUN, *names]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


def test_transformers_passes_under_llama_3s_scaling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads((CONFIGS / "llama-3.1-8b.json").read_text())
    kit(read(config), tmp_path)
    (tmp_path / "llama_kernel.py").write_text(TRANSFORMERS.format(config=json.dumps(config)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PORT", "llama_kernel:rotate")
    tests = runpy.run_path(str(tmp_path / "test_rotation.py"))
    assert len(tests["CASES"]) == 7
    for case in tests["CASES"]:
        tests["test_rotation"](case)


@pytest.mark.long
def test_another_library_passes_and_its_mistakes_do_not(tmp_path: Path) -> None:
    kit(read(COHERE), tmp_path)
    wrong = ("counts_from_one", "rounds_positions", "clamps_positions", "lengthens")
    out = ran(tmp_path, LUCIDRAINS, "rotate", *wrong)
    codes = dict(re.findall(r"^(\w+) (\d)$", out, re.MULTILINE))
    assert codes == {"rotate": "0", **dict.fromkeys(wrong, "1")}, out
    assert "6 failed, 1 passed" in out  # at the last position a float32 angle may err by more than 1 %


def test_axes_and_a_part_of_the_head_are_in_it(tmp_path: Path) -> None:
    """Held to the formula: each pair turns by its own axis, and the rest of the head stays."""
    kit(read(json.loads((CONFIGS / "qwen2-vl-7b.json").read_text())), tmp_path / "axes")
    with np.load(tmp_path / "axes" / "kit.npz") as arrays:
        at, x, want = (arrays[f"all/left padding/float32/{name}"] for name in ("positions", "x", "rotated"))
    theta = 1e6 ** (-np.arange(64) / 64)
    angles = at[[0] * 16 + [1] * 24 + [2] * 24].transpose(1, 2, 0)[:, None] * theta
    a, b = x[..., :64].astype(float), x[..., 64:].astype(float)
    cos, sin = np.cos(angles), np.sin(angles)
    assert at.shape == (3, 2, 5)
    np.testing.assert_allclose(want, np.concatenate((a * cos - b * sin, b * cos + a * sin), -1), atol=1e-6)
    neox = {"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 10000, "max_position_embeddings": 2048}
    kit(read({**neox, "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2}), tmp_path / "part")
    with np.load(tmp_path / "part" / "kit.npz") as arrays:
        x, want, room = (arrays[f"all/one token/float32/{name}"] for name in ("x", "rotated", "room"))
    assert (want[..., 16:] == x[..., 16:]).all()
    assert not room[..., 16:].any()
    assert torch.tensor(room[..., :16]).gt(0).all()


def test_a_model_without_rotation_has_no_kit(tmp_path: Path) -> None:
    bert = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    with pytest.raises(InvalidArgument, match="no rotary layers, but a kit tests only those"):
        kit(read({**bert, "max_position_embeddings": 512}), tmp_path)
