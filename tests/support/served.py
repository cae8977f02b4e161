"""Models and scalings that are run in other programs, and functions that run them.

``python tools/programs.py`` installs the programs. ``PYTHONPATH=tests python -m support.served`` runs vLLM and
mlx-lm again, and records their answers in tests/data/programs.json. Fast tests compare posenc's keys with these
answers.
"""

import atexit
import json
import math
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.integrations import programs
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.model_positions import ModelPositions, softmax_factor
from posenc.integrations.programs.llama_cpp import write as gguf
from posenc.integrations.programs.mlx import write as mlx
from posenc.integrations.programs.vllm import write as vllm
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    LengthScaling,
    Linear,
    Llama3,
    LongRoPE,
    PerPair,
    Scaling,
    YaRN,
)
from support.places import ROOT

PROGRAMS = ROOT / "build" / "programs"
RECORDS = ROOT / "tests" / "data" / "programs.json"
VLLM, MLX = programs.vllm.PROGRAM.releases.versions, programs.mlx.PROGRAM.releases.versions[-1]
XLLAMACPP = programs.llama_cpp.PROGRAM.releases.versions[-1]

DIM, BASE, LENGTH = 16, 1e4, 64
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": LENGTH}
PLAIN = {"model_type": "llama", "rope_theta": BASE, **SIZES}
SCALINGS: list[Any] = [
    Default(),
    Linear(4),
    NTK(4.0),
    NTK(4.0, form="fixed"),
    YaRN(4, LENGTH),
    YaRN(4.0, LENGTH, attention_factor=1.5, beta_fast=8.0),
    YaRN(4.0, LENGTH, attention_factor=1.0),
    YaRN(4.0, LENGTH, mscale=1.0, mscale_all_dim=1.0),
    YaRN(4.0, LENGTH, mscale=0.7, mscale_all_dim=1.0),
    YaRN(4.0, LENGTH, truncate=False),
    YaRN(4.0, LENGTH, ramp="rotations"),
    Llama3(8.0, LENGTH),
    PerPair(tuple(1 + i / 8 for i in range(8))),
    LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0),
]
YARN = {"rope_type": "yarn", "rope_theta": BASE, "factor": 4.0, "original_max_position_embeddings": LENGTH}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    **SIZES,
    "qk_rope_head_dim": DIM,
    "qk_nope_head_dim": DIM,
    "v_head_dim": DIM,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "num_key_value_heads": 4,
}
MLX_SIZES = {"num_key_value_heads": 4, "intermediate_size": 64, "rms_norm_eps": 1e-6, "vocab_size": 8}
"""Keys without a default in mlx-lm's model files."""
STATED = {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}
SECOND = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}
"""YaRN with the pair of factors of DeepSeek, and with a pair whose ratio is 1."""
PARTS = {"model_type": "mistral3", "text_config": {**PLAIN, "rope_parameters": STATED}}
PARTIAL = {"model_type": "gpt_neox", "rotary_emb_base": BASE, "rotary_pct": 0.5, **SIZES}
LLAMA_CPP = f"llama.cpp in xllamacpp {XLLAMACPP}"
SMOLLM = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "max_position_embeddings": 8192,
    "rope_theta": 1e5,
}
SMOLLM_SCALINGS: list[Any] = [
    Default(),
    Linear(2.0),
    NTK(2.0),
    NTK(2.0, form="fixed"),
    YaRN(4.0, 256),
    YaRN(4.0, 256, attention_factor=1.3),
    YaRN(4.0, 256, mscale=1.0, mscale_all_dim=1.0),
    YaRN(4.0, 256, attention_factor=1.3, beta_fast=16.0),
    YaRN(4.0, 256, truncate=False),
    YaRN(4.0, 256, ramp="rotations"),
    Llama3(4.0, 256),
    DynamicNTK(2.0, 256).plan(640),
    PerPair(tuple(1 + i / 16 for i in range(32))),
    LongRoPE((1.0,) * 32, tuple(1 + i / 8 for i in range(32)), 256, 4.0),
]


@dataclass(frozen=True)
class Case:
    """A model, and the scaling that replaces the model's own scaling."""

    config: dict[str, Any]
    scaling: Scaling | LengthScaling | None = None
    max_length: int | None = None
    positions: tuple[int, ...] = (0, 1, 2, 63)
    change: dict[str, Any] = field(default_factory=dict)
    """Keys of the rope dictionary that are deliberately set to wrong values."""

    @property
    def read(self) -> ModelPositions:
        return read(self.config)

    @property
    def now(self) -> Any:
        """The scaling that the model uses in this case."""
        return self.scaling or self.read.rotary.get("scaling")

    @property
    def served(self) -> int:
        """The length of the longest request."""
        factor = getattr(self.scaling, "factor", 1.0)
        return self.max_length or (self.read.max_length if self.scaling is None else math.ceil(LENGTH * factor))

    @property
    def scores(self) -> float:
        """The factor on scores from DeepSeek's mscale_all_dim, which the scaling may state instead of the model."""
        positions = self.read
        if positions.model_type != "deepseek_v3":
            return 1.0
        stated = isinstance(self.scaling, YaRN) and self.scaling.mscale_all_dim is not None
        return float(self.scaling.softmax_factor if stated else softmax_factor(positions.rotary))  # type: ignore[union-attr]

    def vllm(self) -> dict[str, Any]:
        """Return the question for vLLM, as JSON."""
        return self.server(vllm(self.read, self.scaling, max_length=self.max_length))

    def server(self, overrides: dict[str, Any]) -> dict[str, Any]:
        """Return the question for a server with these overrides, as JSON."""
        positions = self.read
        inner: Any = overrides
        for key in positions.path:
            inner = inner[key]
        inner["rope_parameters"] |= self.change
        recipe = positions.rotary
        return {
            "config": self.config,
            "overrides": overrides,
            "path": positions.path,
            "served": self.served,
            "deepseek": positions.model_type == "deepseek_v3",
            "head_dim": recipe.get("head_dim"),
            "half": recipe.get("pairing") == "half",
            "positions": self.positions,
        }

    def mlx(self) -> dict[str, Any]:
        """Return the question for mlx-lm, as JSON."""
        positions = self.read
        given = {**MLX_SIZES, **mlx(positions, self.scaling, max_length=self.max_length)}
        given["rope_scaling"] = {**(given["rope_scaling"] or {}), **self.change} or None
        recipe = positions.rotary
        return {
            "given": given,
            "head_dim": 2 * DIM if positions.model_type == "deepseek_v3" else recipe.get("head_dim"),
            "rotary_dim": recipe.get("rotary_dim"),
            "positions": self.positions,
        }

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return cos and sin of every position and pair in one tensor, and the tolerance for float32."""
        recipe, now = self.read.rotary, self.now
        fixed = now.plan(self.served) if isinstance(now, LengthScaling) else now
        spectrum = fixed.frequencies(recipe.get("rotary_dim"), recipe.get("base"))
        frequencies = torch.tensor([float(f) for f in spectrum.exact], dtype=torch.float64)
        angles = torch.tensor(self.positions)[:, None] * frequencies
        tables = torch.cat((angles.cos(), angles.sin()), -1) * spectrum.attention_factor
        room = 2.0**-21 * (1 + torch.cat((angles, angles), -1)) * spectrum.attention_factor
        return tables, room

    def check(self, tables: list[list[float]]) -> None:
        """Compare a program's cos and sin with posenc's; a frequency in float32 has at most eight roundings."""
        wanted, room = self.tables()
        apart = (torch.tensor(tables, dtype=torch.float64) - wanted).abs()
        assert (apart <= room).all(), f"{self.scaling}: {(apart - room).max():.3g} too far"

    def check_answer(self, answer: dict[str, Any]) -> None:
        """Compare a program's cos and sin and its factor on scores with posenc's."""
        self.check(answer["tables"])
        assert abs(answer["scores"] / self.scores - 1) < 1e-12, self


def of_vllm(version: str, cases: list[Case]) -> list[dict[str, Any]]:
    """Return the answers of a vLLM release to the settings that posenc writes for this release."""
    return ask_vllm(version, [case.vllm() for case in cases])


def ask_vllm(version: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of a vLLM release to cases that were written by hand."""
    return asked("ask_vllm.py", f"vllm-{version}", cases)


def of_mlx(cases: list[Case]) -> list[dict[str, Any]]:
    """Return the answers of mlx-lm to the configs that posenc writes for mlx-lm."""
    return ask_mlx([case.mlx() for case in cases])


def ask_mlx(cases: list[dict[str, Any]], version: str = MLX) -> list[dict[str, Any]]:
    """Return the answers of a release of mlx-lm to these cases."""
    return asked("ask_mlx.py", f"mlx-lm-{version}", cases, PROGRAMS / "env" / "bin" / "python")


def ask_llama(cases: list[dict[str, Any]], version: str = XLLAMACPP) -> list[list[float]]:
    """Return the answers of a release of llama.cpp to these cases."""
    return asked("ask_llama.py", f"xllamacpp-{version}", cases)


def asked(script: str, folder: str, cases: list[dict[str, Any]], python: Path = Path(sys.executable)) -> Any:
    """Return the answers of a script in tests/integrations/programs, which runs a program's files in ``folder``."""
    process, errors = engine(script, folder, python)
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(cases) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    answer = process.stdout.readline()  # type: ignore[union-attr]
    if not answer:
        process.wait()
        raise AssertionError(f"{script}: {errors.read_text()[-2000:]}")
    return json.loads(answer)


@cache
def engine(script: str, folder: str, python: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a script that answers every line of cases with one line, and return its process and its error file."""
    path = ROOT / "tests" / "integrations" / "programs" / script
    paths = os.pathsep.join((str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")))
    with tempfile.NamedTemporaryFile("w", delete=False) as errors:
        process = subprocess.Popen(
            [str(python), str(path), str(PROGRAMS / folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
    atexit.register(lambda: (process.communicate(), os.unlink(errors.name)))
    return process, Path(errors.name)


def by_mlx(scaling: Any) -> bool:
    """Return whether mlx-lm supports this scaling of a plain model."""
    return not isinstance(scaling, YaRN) or (scaling.truncate and scaling.ramp == "dimension")


def record() -> dict[str, Any]:
    """Return each program's input, and its cos and sin at position 1, by program and scaling."""
    every = [Case(PLAIN, scaling, 4 * LENGTH, (1,)) for scaling in SCALINGS]
    some = [case for case in every if by_mlx(case.scaling)]
    records = {
        f"vllm {version}": {
            str(case.scaling): {"given": case.vllm()["overrides"], "table": answer["tables"][0]}
            for case, answer in zip(every, of_vllm(version, every), strict=True)
        }
        for version in VLLM
    }
    of_mlx_lm = {
        str(case.scaling): {"given": case.mlx()["given"], "table": answer["tables"][0]}
        for case, answer in zip(some, of_mlx(some), strict=True)
    }
    return {**records, f"mlx-lm {MLX}": of_mlx_lm}


@cache
def fields_of(scaling: Any) -> Any:
    """Return the fields of SmolLM2 under this scaling, whose original length is shorter than the model's."""
    length = getattr(scaling, "original_length", None)
    return gguf(read(SMOLLM), scaling, max_length=length and math.ceil(length * scaling.factor))


def record_gguf() -> dict[str, Any]:
    """Return the fields for llama.cpp by scaling."""
    fields = {str(scaling): fields_of(scaling) for scaling in SMOLLM_SCALINGS}
    return {
        name: {"values": one.values, "tensors": {key: tensor.tolist() for key, tensor in one.tensors.items()}}
        for name, one in fields.items()
    }


@cache
def recorded() -> dict[str, Any]:
    """Return the recorded answers by program and scaling."""
    return dict(json.loads(RECORDS.read_text()))


if __name__ == "__main__":
    lines = (
        f"{json.dumps(name)}: {json.dumps(one)}" for name, one in {**record(), LLAMA_CPP: record_gguf()}.items()
    )
    RECORDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
