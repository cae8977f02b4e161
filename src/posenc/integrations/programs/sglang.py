"""SGLang: ``--json-model-override-args``, whose rotary files were taken over from vLLM."""

from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import rope_dictionary
from posenc.integrations.programs import ORIGINAL, Releases
from posenc.integrations.programs.vllm import nested, rope_entry
from posenc.scaling import LengthScaling, Scaling

RELEASES = Releases(
    "sglang",
    ("0.5.23",),
    (
        "sglang/srt/layers/rotary_embedding/",
        "sglang/srt/models/deepseek_v2.py",
        "sglang/srt/models/llama.py",
        "sglang/srt/configs/model_config.py",
        "sglang/srt/utils/hf_transformers/",
    ),
)
PAIR = ("mscale", "mscale_all_dim")


def write(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """What SGLang takes as ``--json-model-override-args``: ``rope_parameters`` and ``max_position_embeddings``.

    The keys are vLLM's, but YaRN's attention factor stands in ``attn_factor`` alone. SGLang lays a rope dictionary
    over the file's, and replaces that of a language model inside a composite one. Its files for llama and DeepSeek
    were asked; a model file of another family may read its config otherwise.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``.

    Raises:
        InvalidArgument: what vLLM refuses; a language model more than one key deep; linear scaling over a rope
            dictionary with an original length, which SGLang would not multiply the length for.
    """
    if len(positions.path) > 1:
        raise InvalidArgument(
            f"this model's language model stands in {'.'.join(positions.path)}, and SGLang lays overrides over one "
            "key alone; change config.json there"
        )
    entry, longest = rope_entry("SGLang", positions, scaling, max_length)
    if "attn_factor" in entry:  # which SGLang multiplies by what DeepSeek's pair says, where there is one
        entry = {key: value for key, value in entry.items() if key not in ("attention_factor", *PAIR)}
    if not positions.path:
        before = rope_dictionary(positions.source)
        if entry["rope_type"] == "linear" and ORIGINAL in before:
            raise InvalidArgument(
                f"the config's rope dictionary has {ORIGINAL}, beside which SGLang does not multiply the length by "
                f"factor={entry['factor']:g}; change config.json"
            )
        entry = {key: None for key in PAIR if key in before} | entry
    return nested(positions, longest, entry)
