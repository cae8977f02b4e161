"""transformers 4 computes by the config that is spelt for it as the model does: its own modules, beside our torch.

`python test_transformers4.py FOLDER` asks it, a line of cases each.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from support.answering import answer_lines

FOLDER = "transformers-4.57.6"


def main(folder: Path) -> None:
    """Answer every case."""
    if folder.name.startswith("transformers"):  # else the newer one, which is installed
        sys.path.insert(0, str(folder))
    import transformers

    assert folder.name in (f"transformers-{transformers.__version__}", "programs")

    def answer(case: dict[str, Any]) -> dict[str, Any]:
        config = transformers.AutoConfig.for_model(**case["config"])
        with torch.device("meta"):
            model = transformers.AutoModel.from_config(config)
        rotary = next(type(one) for name, one in model.named_modules() if name.endswith("rotary_emb"))
        attention = next(one for name, one in model.named_modules() if name.endswith(("self_attn", "attention")))
        positions = torch.tensor(
            [[*case["positions"], case["served"] - 1]]
        )  # the last chooses the list of LongRoPE
        if case["axes"]:
            positions = positions.expand(case["axes"], 1, -1)
        cos, sin = (table.flatten(0, -3)[0, :-1] for table in rotary(config=config)(torch.zeros(1), positions))
        pairs = cos.shape[-1] // (1 if config.model_type == "gpt_oss" else 2)
        return {
            "scores": attention.scaling * case["head_dim"] ** 0.5,
            "tables": torch.cat((cos[:, :pairs], sin[:, :pairs]), -1).tolist(),
        }

    answer_lines(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.exit()

from posenc.scaling import Default, Linear, Llama3, YaRN  # noqa: E402
from support.cells import of_transformers  # noqa: E402
from support.served import (  # noqa: E402
    BASE,
    DEEPSEEK,
    LENGTH,
    MLX_SIZES,
    PARTIAL,
    PLAIN,
    PROGRAMS,
    SCALINGS,
    SECOND,
    SIZES,
    STATED,
    YARN,
    Case,
    asked,
)

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not (PROGRAMS / FOLDER).exists(), reason="no transformers 4 here; type: make programs"),
]
SECTIONS = {"rope_type": "default", "rope_theta": BASE, "mrope_section": [2, 3, 3]}
QWEN2_VL = {"model_type": "qwen2_vl_text", **SIZES, "rope_parameters": SECTIONS}
CASES = [
    *(Case(PLAIN, scaling, 4 * LENGTH) for scaling in SCALINGS),
    *(Case({**PLAIN, "rope_parameters": stated}) for stated in (YARN, STATED, {**YARN, "attention_factor": 1.0})),
    *(Case(PARTIAL, scaling) for scaling in (Default(), Linear(4), YaRN(4, LENGTH), Llama3(8.0, LENGTH))),
    *(Case(QWEN2_VL, scaling) for scaling in (Default(), Linear(4))),
    *(Case({**DEEPSEEK, "rope_parameters": stated}) for stated in (SECOND, STATED, YARN)),
    Case({**DEEPSEEK, "rope_theta": BASE}, YaRN(4, LENGTH, attention_factor=1.5)),
]


def test_transformers_4_computes_what_is_spelt_for_it() -> None:
    answers = asked("test_transformers4.py", FOLDER, [of_transformers(case, "v4") for case in CASES])
    for case, answer in zip(CASES, answers, strict=True):
        case.check_answer(answer)


def test_transformers_4_takes_another_base_from_the_newer_spelling() -> None:
    case = Case({**PLAIN, "rope_theta": 5e5}, YaRN(4, LENGTH))
    right, *others = asked(
        "test_transformers4.py",
        FOLDER,
        [
            *(of_transformers(case, spelling) for spelling in ("v4", "v5")),
            *(
                {
                    **of_transformers(Case(PLAIN), "v4"),
                    "config": {**MLX_SIZES, **PLAIN, "model_type": name, **stated},
                }
                for name, stated in (
                    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}}),
                    ("apertus", {"rope_scaling": None, "hidden_act": "silu", "pad_token_id": 0}),
                    ("gpt_oss", {"rope_scaling": None, "head_dim": 16, "pad_token_id": 0}),
                )
            ),
        ],
    )
    case.check(right["tables"])
    # a base in rope_parameters or rope_scaling is not read, and a null is no scaling, without a word
    for scaling, answer in zip((None, Linear(4), None, None), others, strict=True):
        Case(PLAIN, scaling).check(answer["tables"])
