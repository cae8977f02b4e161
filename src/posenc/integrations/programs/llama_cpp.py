"""llama.cpp, which reads the metadata and tensors of a GGUF file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument, MissingExtra
from posenc.integrations.gguf_scaling import OWN_ENDS, rope_fields, scaling_of_fields
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions, softmax_factor
from posenc.integrations.position_table import PositionTable, of
from posenc.integrations.program_tables import ProgramReader, Releases
from posenc.integrations.programs import config_of
from posenc.integrations.rope_dictionaries import MAGNITUDE, ORIGINAL, kind_of, served_as_deepseek
from posenc.scaling import LengthScaling, PerPair, Scaling

ROPE_TYPES: Mapping[str, list[str]] = json.loads((files(__package__) / "rope_types.json").read_text("utf-8"))
"""The architectures that have each rope type, read from llama.cpp's library by ``tools/rope_types.py``."""
INTERLEAVED = frozenset(
    ("chatglm", "cohere2", "command-r", "deepseek2", "ernie4_5", "ernie4_5-moe", "glm4", "llama4")
)
"""Architectures that rotate adjacent channels and whose converter keeps the order of the checkpoint's rows."""
SORTED = (
    "arcee arctic bailingmoe baichuan chameleon deci deepseek granite granitemoe internlm2 llama minicpm "
    "mistral3 olmo smollm3 xverse"
)
"""Architectures that rotate adjacent channels and whose converter reorders the rows of ``half`` checkpoints."""
NO_GRAPH = frozenset(("bert", "clip", "gptj", "starcoder"))
"""Architectures that have a rope type in llama.cpp, but that llama.cpp does not load or runs without rotation."""
HALF = frozenset((*SORTED.split(), *ROPE_TYPES["halves"])) - NO_GRAPH
"""Architectures whose checkpoints have ``half`` pairing."""
STILL = NO_GRAPH | {*ROPE_TYPES["none"]}
"""Architectures that llama.cpp runs without rotation, even if the file has fields for a rotation."""
UNREAD = {
    **dict.fromkeys(("rope.dimension_sections", "rope.scaling.yarn_log_multiplier"), None),
    "attention.sliding_window": None,
    **dict.fromkeys(("attention.temperature_scale", "attention.temperature_length"), 0),
    "rope.scaling.yarn_beta_fast": 32,
    **dict.fromkeys((f"rope.scaling.yarn_{name}" for name in ("beta_slow", "ext_factor", "attn_factor")), 1),
}
"""The fields that posenc does not read, and the values with which they have no effect. For architecture llama, all
but the first two have no effect with any value. Others, such as mistral3, grok and laguna, read more of them.
"""


@dataclass(frozen=True)
class Fields:
    """The metadata and tensors for positions in a GGUF file.

    Args:
        values: metadata, which are numbers and strings, by key.
        tensors: float32 tensors, by name.
    """

    values: Mapping[str, int | float | str]
    tensors: Mapping[str, Float[Tensor, " pairs"]] = field(default_factory=dict)

    def add_to(self, writer: Any) -> None:
        """Add the fields to a ``gguf.GGUFWriter``."""
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        for key, value in self.values.items():
            add[type(value)](key, value)
        for name, tensor in self.tensors.items():
            writer.add_tensor(name, tensor.numpy())


def fields(path: Path) -> Fields:
    """Return the fields of a GGUF file: numbers, strings, and tensors whose names begin with ``rope``."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise MissingExtra("gguf", "hf") from error
    try:
        file = GGUFReader(path)
    except Exception as error:  # truncated files fail in NumPy in many ways
        raise InvalidArgument(f"{str(path)!r} is not a complete GGUF file ({error}); download it again") from error
    values = {name: entry.contents() for name, entry in file.fields.items() if not name.startswith("tokenizer.")}
    return Fields(
        {name: value for name, value in values.items() if type(value) in (int, float, str)},
        {tensor.name: torch.tensor(tensor.data) for tensor in file.tensors if tensor.name.startswith("rope")},
    )


def read(config: object, version: str | None = None) -> PositionTable:
    """Return the table that llama.cpp computes from a GGUF file, or from a config after conversion by llama.cpp.

    Args:
        config: ``Fields``, a .gguf path, or, for architecture llama, a config as in ``huggingface.read``.
        version: a version in ``PROGRAM.releases``. The default is the newest.

    Raises:
        InvalidArgument: the config's architecture is not llama, or its scaling is LongRoPE, which the converter
            does not write; or the file has unsupported fields: those in ``UNREAD``.
    """
    if isinstance(config, Fields) or str(config).endswith(".gguf"):
        file = config if isinstance(config, Fields) else fields(Path(str(config)))
        return _table(file, f"{PROGRAM.title} {PROGRAM.releases.chosen(version)}")
    return PROGRAM.read(config, version)


def change(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary as llama.cpp's converter keeps it for architecture llama.

    Of YaRN's fields, architecture llama reads only the factor and original length. For Llama 3's scaling, the
    converter reads the original length outside the rope dictionary, or uses 8,192 if there is none. A factor
    without a type means linear scaling.
    """
    kind = kind_of(entry)
    if kind == "longrope":
        raise InvalidArgument(
            f"llama.cpp's converter writes no lists of factors for {config['model_type']!r}; use llama_cpp.write"
        )
    dropped = {
        "yarn": (*MAGNITUDE, "beta_fast", "beta_slow", "truncate"),
        "dynamic": ("type", "factor"),
    }.get(kind, ())
    fixed: dict[str, Any] = {
        "dynamic": {"rope_type": "default"},
        "llama3": {ORIGINAL: config.get(ORIGINAL) or 8192},
    }
    return {key: value for key, value in entry.items() if key not in dropped} | fixed.get(kind, {})


PROGRAM = ProgramReader(
    module="llama_cpp",
    title="llama.cpp in xllamacpp",
    # of a Python binding whose wheel contains llama.cpp's shared library
    releases=Releases("xllamacpp", ("2026.7.10068", "2026.10.11549"), ("",)),
    change=change,
    takes="llama_cpp",
    unknown="the conversion of model_type {model_type!r} was not checked; convert the model and pass the GGUF file",
)
"""How llama.cpp's converter reads a config."""


def positions_of(file: Fields) -> ModelPositions:
    """Return the position settings of a GGUF file.

    The file is read by the rules of the Hugging Face family with the architecture's name or, if there is none, by
    llama's rules. If the pairing of the architecture is not known, llama's rules and the pairing ``"half"`` are
    used, and the field ``assumed`` of the result says so.

    Raises:
        InvalidArgument: llama.cpp runs this architecture without rotation, or a field is missing or unsupported:
            those in ``UNREAD``.
    """
    architecture = _architecture(file)
    stated: dict[str, Any] = {key.removeprefix(f"{architecture}."): value for key, value in file.values.items()}
    read_by_it = [*UNREAD][:2] if architecture == "llama" else UNREAD
    if names := [key for key in read_by_it if stated.get(key, UNREAD[key]) != UNREAD[key]]:
        raise InvalidArgument(
            f"architecture {architecture!r} has fields that posenc does not support: {' and '.join(names)}; "
            "run posenc vectors and compare its output with the cos and sin of llama.cpp"
        )
    unrotated = architecture == "baichuan" and stated.get("block_count", 32) != 32
    if architecture in STILL or unrotated:
        raise InvalidArgument(
            f"llama.cpp has no rotation for architecture {architecture!r}"
            f"{' unless block_count is 32' if unrotated else ''}, so posenc does not read this file; pass the "
            "config.json from which the file was converted"
        )
    widths = (
        ("attention.key_length",)
        if "attention.key_length" in stated
        else ("embedding_length", "attention.head_count")
    )
    if lacking := [key for key in ("context_length", "block_count", *widths) if key not in stated]:
        raise InvalidArgument(
            f"this {architecture!r} file has no value, or a list of values, for {' and '.join(lacking)}; "
            "pass the config.json from which the file was converted"
        )
    length, (width, *heads) = stated["context_length"], (stated[key] for key in widths)
    original = stated.get("rope.scaling.original_context_length", length)
    head_dim = width // heads[0] if heads else width
    rotary_dim, base = stated.get("rope.dimension_count", head_dim), stated.get("rope.freq_base", 1e4)
    lists = [file.tensors.get(f"rope_{name}.weight") for name in ("freqs", "factors_long", "factors_short")]
    divisors = lists[0] if lists[0] is not None else lists[1 if length > original else 2]
    recipe = Recipe("rotary").with_(
        base=base,
        head_dim=rotary_dim if architecture == "deepseek2" else head_dim,
        rotary_dim=rotary_dim,
        pairing="interleaved" if architecture in INTERLEAVED else "half",
        scaling=scaling_of_fields(stated, original, divisors, rotary_dim, base),
    )
    layers = ("all",) * stated["block_count"]
    unknown = f"pairing = half, because the pairs of architecture {architecture!r} were not checked in llama.cpp"
    return ModelPositions(
        architecture if architecture in FAMILIES and architecture in HALF | INTERLEAVED else "llama",
        {"all": recipe},
        layers,
        (None,) * len(layers),
        original,
        length,
        assumed=() if architecture in INTERLEAVED | HALF else (unknown,),
    )


def _architecture(file: Fields) -> str:
    """Return the name of the family in llama.cpp, which is the prefix of the keys in the file."""
    return str(file.values.get("general.architecture", "llama"))


def _table(file: Fields, program: str) -> PositionTable:
    """Return the position table of a GGUF file's fields."""
    positions = positions_of(file)
    listed = isinstance(positions.rotary.get("scaling"), PerPair)  # as in Llama 3.1, without an original length
    length = None if listed and positions.original_length == positions.max_length else positions.original_length
    table = of(positions, program=program)
    if positions.assumed:  # if the pairing is unknown
        table = table.with_layers(lambda layer: replace(layer, pairing=None))
    two_lists = "rope_factors_short.weight" in file.tensors and positions.original_length < positions.max_length
    at_most = {f"{_architecture(file)}.context_length": positions.original_length}
    short = _table(replace(file, values={**file.values, **at_most}), program) if two_lists else None
    return replace(table, model_type=_architecture(file), pretrained_length=length, short=short)


def converted(table: PositionTable) -> Fields:
    """Return the fields that ``flags`` reads, as the converter would write them for a config."""
    (layer,) = table.layers.values()
    lists = {"rope_freqs.weight": torch.ones(0)} if str(layer.scaling).startswith("llama3") else {}
    return Fields({"general.architecture": "llama", "llama.context_length": table.admitted_length}, lists)


def flags(positions: ModelPositions, file: Fields) -> list[str]:
    """Return the flags that make llama-server compute this rotation, whatever scaling the file has.

    llama-server ignores its flag for YaRN's attention factor, but reads the key in the file, which
    ``--override-kv`` replaces.

    Raises:
        InvalidArgument: llama.cpp needs a list of factors for this scaling, and has no flag for such a list; or the
            file contains such a list, and no flag can remove it.
    """
    values, tensors = rope_fields(positions.rotary, positions.max_length, any_ends=True)
    if file.tensors:
        raise InvalidArgument(
            f"llama-server has no flag that removes {', '.join(file.tensors)}; write a new GGUF file"
        )
    if tensors:
        raise InvalidArgument(
            f"llama-server has no flag for {positions.rotary.get('scaling')}; write the fields "
            "that llama_cpp.write returns into the GGUF file"
        )
    values = {"scaling.type": "none", **values}
    words = [
        word
        for key, flag in FLAGS.items()
        if key in values and values[key] != OWN_ENDS.get(key)
        for word in (flag, values[key] if key == "scaling.type" else f"{values[key]:.10g}")
    ]
    times, key = values.get("scaling.attn_factor", 1.0), f"{_architecture(file)}.rope.scaling.attn_factor"
    if times != file.values.get(key, 1.0):
        words += ["--override-kv", f"{key}=float:{times:.9g}"]
    return words


def write(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | None = None,
    *,
    architecture: str = "llama",
    max_length: int | None = None,
) -> Fields:
    """Return the fields with which llama.cpp computes a rotation, under their names in the GGUF specification.

    Linear scaling is written as a scaling type, and LongRoPE as two tensors. YaRN is written as a scaling type
    only if truncate is true, beta_fast is 32 and beta_slow is 1, because few architectures read other values from
    the file. Any other YaRN or fixed scaling is written as a tensor ``rope_freqs.weight``, which divides the
    frequency of each pair. llama.cpp fails to load a file with one of these tensors if the architecture does not
    use the tensor. The attention factor is written as ``attn_factor``. With YaRN, llama.cpp also multiplies it by
    0.1·ln s + 1, where s is the scaling's factor.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``.
        architecture: the name of the family in llama.cpp, which is the prefix of the keys.

    Raises:
        InvalidArgument: the scaling is dynamic; no layer rotates; the model needs other fields (windows, sections,
            query scales); or a DeepSeek model is scaled: llama.cpp has one field for mscale and mscale_all_dim.
    """
    recipe, config, _ = config_of(positions, scaling, max_length)
    now, family = recipe.get("scaling"), FAMILIES[positions.model_type]
    elsewhere = {
        "windows": any(positions.windows),
        "sections": recipe.get("axes"),
        "query scales": positions.scales,
        "pairs that rotate backwards": family.backwards,
    }
    if names := [name for name, there in elsewhere.items() if there]:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has {' and '.join(names)}, which posenc cannot write for "
            "llama.cpp; use the fields that llama.cpp's own converter writes"
        )
    longest = max_length or config[positions.length_key]
    values, tensors = rope_fields(recipe, longest)
    if family.mscale_scores and (
        softmax_factor(recipe) != 1 or (served_as_deepseek(config) and ("scaling.type" in values or tensors))
    ):
        raise InvalidArgument(
            f"{now} of model_type {positions.model_type!r} scales cos, sin and also the scores, but llama.cpp has "
            "only one field for both factors; use Default() or NTK, or the fields that llama.cpp's converter writes"
        )
    rope = {"dimension_count": recipe.get("rotary_dim"), **values}
    return Fields(
        {f"{architecture}.context_length": longest, **{f"{architecture}.rope.{k}": v for k, v in rope.items()}},
        {f"rope_{name}.weight": torch.tensor(factors, dtype=torch.float32) for name, factors in tensors.items()},
    )


FLAGS = {
    "scaling.type": "--rope-scaling",
    "freq_base": "--rope-freq-base",
    "scaling.factor": "--rope-scale",
    "scaling.original_context_length": "--yarn-orig-ctx",
    "scaling.yarn_beta_fast": "--yarn-beta-fast",
    "scaling.yarn_beta_slow": "--yarn-beta-slow",
}
"""The flags of llama-server, by the metadata that each flag replaces, without the prefix ``rope.``."""
