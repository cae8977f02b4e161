"""The combinations of model and scaling that are run in every program, which are the cells of a table in docs.

``PYTHONPATH=tests python -m support.cells`` runs all programs and records the outcomes in tests/data/cells.json.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations import programs
from posenc.integrations.huggingface import write
from posenc.integrations.programs.llama_cpp import write as gguf
from posenc.integrations.programs.sglang import write as sglang
from posenc.scaling import NTK, Default, DynamicNTK, Linear, Llama3, LongRoPE, YaRN
from support.served import (
    BASE,
    DEEPSEEK,
    LENGTH,
    LLAMA_CPP,
    MLX,
    PLAIN,
    PROGRAMS,
    ROOT,
    SIZES,
    SMOLLM_SCALINGS,
    VLLM,
    Case,
    asked,
    of_mlx,
    of_vllm,
)

RECORDS = ROOT / "tests" / "data" / "cells.json"
SECTIONS = {"rope_type": "default", "rope_theta": BASE, "mrope_section": [2, 3, 3]}
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "plain": (PLAIN, 8),
    "composite": ({"model_type": "mistral3", "text_config": PLAIN}, 8),
    "M-RoPE": ({"model_type": "qwen2_vl_text", **SIZES, "rope_parameters": SECTIONS}, 8),
    "partial head": ({"model_type": "gpt_neox", "rotary_emb_base": BASE, "rotary_pct": 0.5, **SIZES}, 4),
    "latent attention": ({**DEEPSEEK, "rope_theta": BASE}, 8),
    "stated factor": (PLAIN, 8),
}
"""The config and the number of pairs of each model."""
SCALINGS: dict[str, Callable[[int, dict[str, float]], Any]] = {
    "none": lambda pairs, stated: None if stated else Default(),
    "linear": lambda pairs, stated: None if stated else Linear(4.0),
    "NTK": lambda pairs, stated: None if stated else NTK(4.0),
    "dynamic NTK": lambda pairs, stated: None if stated else DynamicNTK(4.0, LENGTH),
    "YaRN": lambda pairs, stated: YaRN(4.0, LENGTH, **stated),
    "YaRN, ramp by rotations": lambda pairs, stated: YaRN(4.0, LENGTH, ramp="rotations", **stated),
    "Llama 3": lambda pairs, stated: None if stated else Llama3(8.0, LENGTH),
    "LongRoPE": lambda pairs, stated: LongRoPE((1.0,) * pairs, (2.0,) * pairs, LENGTH, 4.0, **stated),
}
"""Functions of the number of pairs and a stated attention factor, which return a scaling, or None if the scaling
cannot state such a factor."""


@dataclass(frozen=True)
class Cell:
    """A program with a model and a scaling."""

    program: str
    model: str
    scaling: str

    @property
    def case(self) -> Case | None:
        config, pairs = MODELS[self.model]
        stated = {"attention_factor": 1.5} if self.model == "stated factor" else {}
        scaling = SCALINGS[self.scaling](pairs, stated)
        return None if scaling is None else Case(config, scaling)

    @property
    def outcome(self) -> str:
        """The known outcome: ``"refused: …"``, ``"not run"``, ``"run"`` by another test, or ``""`` if unknown."""
        case = self.case
        try:
            given = WRITE[self.program](case)
        except InvalidArgument as error:
            return f"refused: {error}"
        if self.program != LLAMA_CPP:
            unknown = self.model == "partial head" and self.program.startswith(("mlx-lm", "SGLang"))
            return "not run" if unknown else ""  # tests do not run their files for this family
        plain = Cell(self.program, "plain", self.scaling).case
        same = self.model in ("plain", "stated factor") or given.values == gguf(plain.read, plain.scaling).values  # type: ignore[union-attr]
        asked_there = {type(one) for one in SMOLLM_SCALINGS}
        return "run" if same and type(case.scaling) in asked_there else "not run"


MLX_LM = f"mlx-lm {MLX}"
SGLANG = programs.sglang.PROGRAM.releases.versions[-1]


def of_transformers(case: Case, spelling: Any) -> dict[str, Any]:
    """Return the question for transformers, as JSON."""
    positions = case.read
    return {
        "config": write(positions, case.scaling, max_length=case.max_length, spelling=spelling),
        "positions": case.positions,
        "served": case.served,
        "axes": 3 if positions.rotary.get("axes") else 0,
        "head_dim": 2 * 16 if positions.model_type == "deepseek_v3" else positions.rotary.get("head_dim"),
    }


def of_sglang(case: Case) -> dict[str, Any]:
    """Return the question for SGLang, as JSON."""
    return case.server(sglang(case.read, case.scaling))


WRITE: dict[str, Callable[[Case], Any]] = {
    "transformers 4.57.6": lambda case: of_transformers(case, "v4"),
    "transformers 5": lambda case: of_transformers(case, "v5"),
    **{f"vLLM {version}": lambda case: case.vllm() for version in VLLM},
    f"SGLang {SGLANG}": lambda case: of_sglang(case),
    MLX_LM: lambda case: case.mlx(),
    LLAMA_CPP: lambda case: gguf(case.read, case.scaling),
}
ASK: dict[str, Callable[[list[Case]], Any]] = {
    "transformers 4.57.6": lambda cases: transformers("transformers-4.57.6", "v4", cases),
    "transformers 5": lambda cases: transformers("", "v5", cases),
    **{f"vLLM {version}": lambda cases, version=version: of_vllm(version, cases) for version in VLLM},  # type: ignore[misc]
    f"SGLang {SGLANG}": lambda cases: asked(
        "test_sglang.py", f"sglang-{SGLANG}", [of_sglang(case) for case in cases]
    ),
    MLX_LM: of_mlx,
}


def transformers(folder: str, spelling: str, cases: list[Case]) -> Any:
    """Return the answers of the transformers release in ``folder``."""
    return asked("test_transformers4.py", folder, [of_transformers(case, spelling) for case in cases])


def cells(program: str) -> list[Cell]:
    """Return the cells of a program."""
    every = [Cell(program, model, scaling) for model in MODELS for scaling in SCALINGS]
    return [cell for cell in every if cell.case is not None]


def run(program: str) -> dict[str, dict[str, str]]:
    """Return the outcome of every cell, and run the program for cells whose outcome is not known."""
    outcomes = {cell: cell.outcome for cell in cells(program)}
    open_ones = [cell for cell, outcome in outcomes.items() if not outcome]
    cases = [cell.case for cell in open_ones]
    for cell, case, answer in zip(open_ones, cases, ASK[program](cases) if cases else [], strict=True):  # type: ignore[arg-type]
        try:
            case.check_answer(answer)
        except AssertionError as error:
            raise AssertionError(f"{cell}: {error}") from error
        outcomes[cell] = "run"
    return {
        scaling: {cell.model: outcome for cell, outcome in outcomes.items() if cell.scaling == scaling}
        for scaling in SCALINGS
    }


def recorded() -> dict[str, dict[str, dict[str, str]]]:
    """Return the recorded outcomes, by program, scaling and model."""
    return dict(json.loads(RECORDS.read_text("utf-8")))


if __name__ == "__main__":
    assert PROGRAMS.exists()
    lines = (f"{json.dumps(program)}: {json.dumps(run(program), ensure_ascii=False)}" for program in WRITE)
    RECORDS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
