"""llama.cpp reads text by the fields that are written for it as transformers does: the same log probabilities.

SmolLM2's first four blocks in float32, 1,024 tokens, at most four times the original length. What is asked is
recorded for the fast tests.
"""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.integrations import programs
from posenc.integrations.huggingface import patched, read
from posenc.integrations.programs.llama_cpp import Fields
from posenc.integrations.serving import serving
from posenc.scaling import LongRoPE, YaRN
from support.files import finish
from support.served import (
    PROGRAMS,
    SMOLLM_SCALINGS,
    XLLAMACPP,
    ask_llama,
    fields_of,
)

BLOCKS, TOKENS = 4, 1024
MEAN, MOST, TIMES = 1e-4, 2e-3, 20
"""The differences of log p that are allowed, and how many times the right file's mean a wrong one's must be."""

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not PROGRAMS.exists(), reason="no other programs here; type: make programs"),
]


@pytest.fixture(scope="module")
def source(smollm: Path) -> Any:
    return pytest.importorskip("gguf").GGUFReader(smollm)


@pytest.fixture(scope="module")
def weights(source: Any) -> dict[str, Any]:
    """The first blocks in float32."""
    gguf = pytest.importorskip("gguf")
    outside = tuple(f"blk.{block}." for block in range(BLOCKS, 30))
    chosen = [tensor for tensor in source.tensors if not tensor.name.startswith(outside)]
    return {one.name: gguf.dequantize(one.data, one.tensor_type).astype("f4") for one in chosen}


def written(source: Any, weights: dict[str, Any], target: Path, fields: Fields) -> Path:
    """A GGUF file of these weights with these fields in place of the source's, and no tokenizer."""
    writer = pytest.importorskip("gguf").GGUFWriter(target, "llama")
    kept = [name for name in source.fields if name.startswith("llama.") and name not in fields.values]
    for name in kept:
        value = BLOCKS if name == "llama.block_count" else source.fields[name].contents()
        writer.add_key_value(name, value, source.fields[name].types[0])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(0)
    fields.add_to(writer)
    for name, tensor in weights.items():
        writer.add_tensor(name, tensor)
    finish(writer)
    return target


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(0, 49152, (TOKENS,), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def llama_cpp(
    source: Any, weights: dict[str, Any], ids: Tensor, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Tensor]:
    folder = tmp_path_factory.mktemp("llama")

    def ask(fields: Fields, length: int = TOKENS, version: str = XLLAMACPP) -> Tensor:
        file = written(source, weights, folder / "model.gguf", fields)
        (answer,) = ask_llama([{"file": str(file), "tokens": ids[:length].tolist()}], version)
        os.unlink(file)
        return torch.tensor(answer, dtype=torch.float64)

    return ask


@pytest.fixture(scope="module")
def model(source: Any, weights: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    transformers = pytest.importorskip("transformers")
    file = written(source, weights, tmp_path_factory.mktemp("reference") / "plain.gguf", Fields({}))
    config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    loaded = transformers.LlamaForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, config=config, dtype=torch.float32
    )
    os.unlink(file)
    return loaded.eval()


def by_transformers(model: Any, ids: Tensor, scaling: Any) -> Tensor:
    """Log p of every token but the first, the model turning by this scaling."""
    positions = read(model.config).with_scaling(scaling)
    with torch.inference_mode(), patched(model, positions.as_layers(total_length=len(ids))):
        logits = model(ids[None]).logits[0, :-1]
    picked = logits.gather(1, ids[1:, None])[:, 0].double()
    weight: Tensor = picked - torch.cat([part.double().logsumexp(-1) for part in logits.split(128)])
    return weight


@pytest.fixture(scope="module")
def answers(llama_cpp: Callable[..., Tensor]) -> dict[str, Tensor]:
    """What llama.cpp says of the file of every scaling."""
    return {str(scaling): llama_cpp(fields_of(scaling)) for scaling in SMOLLM_SCALINGS}


@pytest.mark.parametrize("scaling", SMOLLM_SCALINGS, ids=str)
def test_llama_cpp_reads_as_transformers(
    scaling: Any, model: Any, ids: Tensor, answers: dict[str, Tensor], llama_cpp: Callable[..., Tensor]
) -> None:
    """Every other scaling's file is a wrong one: without a scaling, of another ramp, factor or attention factor."""
    wanted = by_transformers(model, ids, scaling)
    apart = {name: (answer - wanted).abs() for name, answer in answers.items()}
    right = apart.pop(str(scaling))
    assert right.mean() <= MEAN
    assert right.max() <= MOST
    fields, key = fields_of(scaling), "llama.rope.scaling.attn_factor"
    if fields.values.get(key, 1.0) != 1.0:
        fewer = {name: value for name, value in fields.values.items() if name != key}
        apart[f"without {key}"] = (llama_cpp(Fields(fewer, fields.tensors)) - wanted).abs()
    close = {name: float(one.mean()) for name, one in apart.items() if one.mean() < TIMES * right.mean()}
    assert not close, f"{right.mean():.2g} where it is right, and {close}"


@pytest.mark.parametrize("version", programs.llama_cpp.PROGRAM.releases.versions[:-1])
def test_an_older_llama_cpp_reads_the_same(
    version: str, answers: dict[str, Tensor], llama_cpp: Callable[..., Tensor]
) -> None:
    """Tokens of the scaled range count most, and every scaling's file is another one's wrong file."""
    for scaling in SMOLLM_SCALINGS[::3]:
        older = llama_cpp(fields_of(scaling), TOKENS // 2, version)
        apart = (older - answers[str(scaling)][: len(older)]).abs()
        assert apart.mean() <= MEAN, scaling
        assert apart.max() <= MOST, scaling


def test_llama_cpp_takes_the_short_list_within_the_original_length(
    model: Any, ids: Tensor, llama_cpp: Callable[..., Tensor]
) -> None:
    scaling = LongRoPE(tuple(1 + i / 16 for i in range(32)), (8.0,) * 32, 256, 4.0)
    answer = llama_cpp(fields_of(scaling), 256)
    assert (answer - by_transformers(model, ids[:256], scaling)).abs().mean() <= MEAN


def test_llama_cpp_does_not_read_the_ends_of_a_ramp(
    model: Any, ids: Tensor, llama_cpp: Callable[..., Tensor]
) -> None:
    """Fields as they were until this was run: a YaRN of other ends under keys that architecture llama ignores."""
    scaling = YaRN(4.0, 256, attention_factor=1.3, beta_fast=16.0)
    plain = fields_of(YaRN(4.0, 256)).values
    keys = "llama.rope.scaling"
    before = {**plain, f"{keys}.yarn_beta_fast": 16.0, f"{keys}.yarn_attn_factor": 1.3 / 1.1386294361119891}
    answer = llama_cpp(Fields(before), 512)
    assert torch.equal(answer, llama_cpp(Fields(plain), 512))
    assert (answer - by_transformers(model, ids[:512], scaling)).abs().mean() > TIMES * MEAN


FLAGGED = [scaling for scaling in SMOLLM_SCALINGS if not fields_of(scaling).tensors] + [
    YaRN(4.0, 256, attention_factor=1.3, beta_fast=16.0)
]


@pytest.mark.parametrize("scaling", FLAGGED, ids=str)
def test_the_command_line_gives_what_the_written_file_gives(
    scaling: Any,
    source: Any,
    weights: dict[str, Any],
    ids: Tensor,
    answers: dict[str, Tensor],
    tmp_path: Path,
) -> None:
    """llama-server's own parser reads the words, over a file without scaling that has a quarter of the length."""
    sizes = {"general.architecture": "llama", "llama.context_length": 256}
    file = written(source, weights, tmp_path / "plain.gguf", Fields(sizes))
    answer = serving("llama.cpp", file, scaling, max_length=TOKENS)
    assert not answer["files"]
    assert not answer["notes"]
    words = shlex.split(answer["command"])
    assert words[-2:] == ["--override-kv", f"llama.context_length=int:{TOKENS}"]
    (given,) = ask_llama([{"command": words, "tokens": ids[: TOKENS // 2].tolist()}])
    os.unlink(file)
    written_file = {name: answer[: len(given)] for name, answer in answers.items()}
    apart = (torch.tensor(given, dtype=torch.float64) - written_file[str(scaling)]).abs()
    assert (apart.mean() <= MEAN) & (apart.max() <= MOST)
    right = written_file[str(scaling)]
    wrong = [one for one in written_file.values() if (one - right).any()]
    closest = min((one - torch.tensor(given)).abs().mean() for one in wrong)
    assert closest >= TIMES * apart.mean()
