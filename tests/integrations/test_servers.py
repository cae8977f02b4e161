"""Keys for vLLM, mlx-lm and llama.cpp say the frequencies that were meant, by the formulas of those programs."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read
from posenc.integrations.servers import gguf, mlx, vllm
from posenc.schedules import (
    NTK,
    Default,
    DynamicNTK,
    LengthSchedule,
    Linear,
    Llama3,
    LongRoPE,
    PerPair,
    Proportional,
    Schedule,
    YaRN,
)

DIM, BASE, LENGTH = 16, 1e4, 64
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": LENGTH}
LLAMA = read({"model_type": "llama", "rope_theta": BASE, **SIZES})
SCHEDULES = [
    Default(),
    Linear(4.0),
    NTK(4.0),
    NTK(4.0, form="fixed"),
    YaRN(4.0, LENGTH),
    YaRN(4.0, LENGTH, attention_factor=1.5, beta_fast=8.0),
    YaRN(4.0, LENGTH, truncate=False),
    YaRN(4.0, LENGTH, ramp="rotations"),
    Llama3(8.0, LENGTH),
    PerPair(tuple(1 + i / 8 for i in range(8))),
    LongRoPE((1.0,) * 8, (2.0,) * 8, LENGTH, 4.0),
]


def wanted(schedule: Any) -> tuple[list[float], float]:
    """Frequencies and attention factor of a request beyond the trained length."""
    fixed = schedule.plan(4 * LENGTH) if isinstance(schedule, LengthSchedule) else schedule
    spectrum = fixed.spectrum(DIM, BASE)
    return [float(f) for f in spectrum.frequencies], float(spectrum.attention_factor)


def ladder(base: float, factors: list[float] | None = None) -> list[float]:
    return [1 / (base ** (2 * i / DIM) * (factors[i] if factors else 1)) for i in range(DIM // 2)]


def ramped(base: float, entry: dict[str, Any]) -> list[float]:
    """YaRN as all three programs have it, the ends of the ramp rounded unless told otherwise."""

    def dim(turns: float) -> float:
        return DIM * math.log(entry["original"] / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = dim(entry["beta_fast"]), dim(entry["beta_slow"])
    if entry.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, DIM - 1)
    shares = [1 - min(1, max(0, (i - low) / (high - low or 0.001))) for i in range(DIM // 2)]
    return [f / entry["factor"] * (1 - g) + f * g for f, g in zip(ladder(base), shares, strict=True)]


def llama3(base: float, entry: dict[str, Any]) -> list[float]:
    found = []
    low, high = entry["low_freq_factor"], entry["high_freq_factor"]
    for f in ladder(base):
        turns = entry["original"] * f / (2 * math.pi)
        smooth = min(1, max(0, (turns - low) / (high - low)))
        found.append((1 - smooth) * f / entry["factor"] + smooth * f)
    return found


def of_vllm(given: dict[str, Any]) -> tuple[list[float], float]:
    entry = dict(given["rope_parameters"])
    base, kind = entry["rope_theta"], entry["rope_type"]
    entry["original"] = entry.get("original_max_position_embeddings")
    if kind == "yarn":
        return ramped(base, entry), (0.1 * math.log(entry["factor"]) + 1) * entry.get("attn_factor", 1)
    if kind == "longrope":
        ratio = given["max_position_embeddings"] / entry["original"]
        own = math.sqrt(1 + math.log(ratio) / math.log(entry["original"])) if ratio > 1 else 1.0
        return ladder(base, entry["long_factor"]), entry.get("long_mscale", own)
    if kind == "llama3":
        return llama3(base, entry), 1.0
    return ladder(base, [entry.get("factor", 1.0)] * (DIM // 2)), 1.0


def of_mlx(given: dict[str, Any]) -> tuple[list[float], float]:
    entry = {"rope_type": "default", **(given["rope_scaling"] or {})}
    base, kind = given["rope_theta"], entry["rope_type"]
    entry["original"] = entry.get("original_max_position_embeddings")
    if kind == "yarn":
        return ramped(base, entry), 0.1 * entry.get("mscale", 1) * math.log(entry["factor"]) + 1
    if kind == "longrope":
        ratio = given["max_position_embeddings"] / entry["original"]
        own = math.sqrt(1 + math.log(ratio) / math.log(entry["original"])) if ratio > 1 else 1.0
        return ladder(base, entry["long_factor"]), own
    return llama3(base, entry) if kind == "llama3" else ladder(base, [entry.get("factor", 1.0)] * (DIM // 2)), 1.0


def of_gguf(values: dict[str, Any], tensors: dict[str, list[float]]) -> tuple[list[float], float]:
    scaling = {key.split(".")[-1]: value for key, value in values.items() if ".scaling." in key}
    base, scale = values["llama.rope.freq_base"], scaling.get("attn_factor", 1.0)
    if scaling.get("type") == "yarn":
        ends = {end: scaling[f"yarn_{end}"] for end in ("beta_fast", "beta_slow")}
        entry = {"original": scaling["original_context_length"], "factor": scaling["factor"], **ends}
        return ramped(base, entry), scaling["yarn_attn_factor"] * (1 + 0.1 * math.log(scaling["factor"]))
    factors = tensors.get("rope_factors_long.weight", tensors.get("rope_freqs.weight"))
    return ladder(base, factors or [scaling.get("factor", 1.0)] * (DIM // 2)), scale


def close(found: tuple[list[float], float], schedule: Schedule | LengthSchedule) -> None:
    """Within float32, in which GGUF keeps a base and its factors: 2^−24 times ln(base), and a unit each."""
    frequencies, scale = wanted(schedule)
    torch.testing.assert_close(torch.tensor(found[0]), torch.tensor(frequencies), rtol=2e-6, atol=0)
    assert found[1] == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_vllm(schedule: Any) -> None:
    given = vllm(LLAMA, schedule, max_length=4 * LENGTH)
    assert given["max_position_embeddings"] == 4 * LENGTH
    close(of_vllm(given), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_mlx(schedule: Any) -> None:
    if isinstance(schedule, YaRN) and (not schedule.truncate or schedule.ramp == "rotations"):
        with pytest.raises(InvalidArgument, match=r"has unrounded ends|has attention factor 1.13863, and mlx-lm"):
            mlx(LLAMA, schedule, max_length=4 * LENGTH)
        return
    close(of_mlx(mlx(LLAMA, schedule, max_length=4 * LENGTH)), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_gguf_by_its_own_reader(schedule: Any, tmp_path: Path) -> None:
    package = pytest.importorskip("gguf")
    writer = package.GGUFWriter(tmp_path / "positions.gguf", "llama")
    gguf(LLAMA, schedule, max_length=4 * LENGTH).add_to(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = package.GGUFReader(tmp_path / "positions.gguf")
    values = {name: entry.contents() for name, entry in found.fields.items() if name.startswith("llama.")}
    assert values["llama.context_length"] == 4 * LENGTH
    assert values["llama.rope.dimension_count"] == DIM
    close(of_gguf(values, {tensor.name: tensor.data.tolist() for tensor in found.tensors}), schedule)


def test_gguf_keys_are_those_of_the_specification() -> None:
    keys = pytest.importorskip("gguf").Keys
    names = {v.format(arch="llama") for k, v in vars(keys.Rope).items() if isinstance(v, str) and "{arch}" in v}
    names.add(keys.LLM.CONTEXT_LENGTH.format(arch="llama"))
    for schedule in SCHEDULES:
        assert set(gguf(LLAMA, schedule).values) <= names


@pytest.mark.parametrize("program", [vllm, mlx, gguf])
def test_what_a_program_does_not_compute_is_refused(program: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"write schedule.plan\(total_length\)"):
        program(LLAMA, DynamicNTK(2.0, LENGTH))
    gemma = {"model_type": "gemma3_text", "head_dim": DIM, "rope_theta": 1e6, **SIZES, "num_hidden_layers": 6}
    with pytest.raises(
        InvalidArgument, match=r"'gemma3_text' turns \['full_attention', 'sliding_attention'\]; one"
    ):
        program(read(gemma))
    with pytest.raises(InvalidArgument, match=r"'gpt2' has no rotary layers|'gpt2' turns nothing"):
        program(read({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 64}))


def test_more_refusals() -> None:
    for program in (vllm, gguf):
        with pytest.raises(InvalidArgument, match=r"stand still|is not what vLLM computes"):
            program(LLAMA, Proportional(0.5))
    gptneox = read({"model_type": "gpt_neox", "rotary_emb_base": BASE, "rotary_pct": 0.5, **SIZES})
    with pytest.raises(InvalidArgument, match="lists of factors for whole heads of halves alone"):
        vllm(gptneox, YaRN(4.0, LENGTH, ramp="rotations"))
