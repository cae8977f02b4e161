"""`posenc doctor` from the command line: a file of numbers, a function of any signature, and what it refuses."""

import io
import json
import signal
import sys
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import PosencError
from posenc.integrations.doctor import call

LLAMA = Path(__file__).parents[1] / "data" / "configs" / "llama-3.1-8b.json"
PORT = """
import torch

def precompute_freqs_cis(dim, end, theta=10000.0):
    f = theta ** (-torch.arange(0, dim, 2) / dim)
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end), f))

def apply_rope(xq, xk, freqs_cis):
    q = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2)) * freqs_cis[None, :, None]
    return torch.view_as_real(q).flatten(3), xk
"""


def asked(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the file in this process: starting a process for it takes as long as all else."""

    def run(command: list[str], *, input: bytes, **_: Any) -> CompletedProcess[bytes]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(input)))
        try:
            call.main(*command[3:])
        except Exception as error:
            return CompletedProcess(command, 1, stderr=f"{type(error).__name__}: {error}".encode())
        finally:
            signal.alarm(0)  # which ends a process that goes on
        return CompletedProcess(command, 0)

    monkeypatch.setattr(call.subprocess, "run", run)
    monkeypatch.setattr(call.resource, "setrlimit", lambda *_: None)


def test_numbers_of_a_file_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "port.npz", inv_freq=5e5 ** (-np.arange(64) / 64))
    code, out = asked(LLAMA, tmp_path / "port.npz")
    assert (code, out.startswith("omits the model's llama3")) == (1, True)
    (tmp_path / "port.json").write_text(json.dumps({"slopes": [2.0 ** -(i + 1) for i in range(8)]}))
    code, out = asked("alibi", tmp_path / "port.json", "--json")
    assert code == 0
    assert json.loads(out)["right"]


def test_a_function_is_called_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "port.py").write_text(PORT)
    code, out = asked("rotary(pairing=half)", "--call", f"{tmp_path}/port.py:apply_rope")
    assert code == 1
    assert "rotates channels (2i, 2i+1) instead of (i, i+32)" in out
    assert "x as (B, T, H, D)" in out


@pytest.mark.usefixtures("here")
def test_every_layer_type_has_its_line(tmp_path: Path) -> None:
    """With the type that --layer names, the others are not tested, and are said not to be."""
    port = """
import torch

def rope(x, positions, layer_idx):
    theta = 1e4 ** (-torch.arange(0, 256, 2) / 256)
    cos, sin = (positions[:, None] * theta).cos(), (positions[:, None] * theta).sin()
    a, b = x[..., :128], x[..., 128:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
"""
    (tmp_path / "port.py").write_text(port)
    words = (LLAMA.with_name("gemma-3-4b.json"), "--call", f"{tmp_path}/port.py:rope")
    code, out = asked(*words)
    near, full = out.strip().split("\n")
    assert code == 1
    assert near.startswith("sliding_attention: right; ")
    assert full.startswith("full_attention: its frequencies belong to layer type 'sliding_attention'")
    code, out = asked(*words, "--layer", "sliding_attention")
    assert (code, out.strip().split("\n")[1]) == (0, "full_attention: not tested")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rotary",), "pass either a file of numbers or --call"),
        (("rotary", "--call", "port.py"), "--call FILE:FUNCTION"),
        (("rotary", "--call", "no_such.py:f"), "there is no file no_such.py"),
        (("rotary", "no_such.npz"), "'no_such.npz' does not exist or is not a file; pass a .npz"),
        (("rotary", __file__), "must be a .npz or .safetensors or .json file with the port's arrays"),
        (("rotery(base=1e6)", "no_such.npz"), "unknown file, folder or encoding 'rotery'; did you mean 'rotary'"),
        (("owner/model", "no_such.npz"), "owner/model cannot be read .*, because posenc downloads nothing"),
    ],
)
def test_what_it_cannot_do_it_says(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(PosencError, match=said):
        asked(*words)


OTHER_CHANNELS = """
import torch

def apply_rope(x, positions):
    return x * (positions[:, None] * torch.ones(64)).cos()
"""


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("model", "listing", "said"),
    [
        ("rotary", "raise RuntimeError('no')\n", "RuntimeError: no"),
        ("rotary", "def other(x): return x\n", "unknown function .apply_rope.; known: other"),
        ("rotary", "def apply_rope(x, colour): return x\n", "the function needs colour"),
        # The error of the likeliest call, and not of the last one tried, which gave positions as one number.
        (LLAMA, OTHER_CHANNELS, r"no numbers in calls with 128 channels per head: RuntimeError: .*\(64\)"),
    ],
)
def test_a_file_that_does_not_run_is_one_sentence(
    model: str | Path, listing: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "port.py").write_text(listing)
    with pytest.raises(PosencError, match=said):
        asked(model, "--call", f"{tmp_path}/port.py:apply_rope")


def test_a_file_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "SECONDS", 1)
    (tmp_path / "port.py").write_text("import time\nwhile True: time.sleep(1)\n")
    with pytest.raises(PosencError, match="did not finish within"):
        asked("rotary", "--call", f"{tmp_path}/port.py:apply_rope")
