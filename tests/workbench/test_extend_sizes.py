"""extend at the sizes people have: mixed layers, shards, bfloat16, long texts in pieces, tuned weights saved."""

import copy
import json
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
import torch
import transformers
from rich.console import Console
from torch.nn import functional as F
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc import workbench
from posenc.errors import InvalidArgument, StudyError
from posenc.integrations.huggingface import load
from posenc.integrations.huggingface.folder import identity
from posenc.integrations.huggingface.load import Pretrained
from posenc.integrations.huggingface.measuring.shrink import shrunk
from posenc.scaling import NTK, Linear, YaRN
from posenc.workbench.run.ledger import Ledger
from support import tiny_folders
from support.command_line import said
from support.extensions import words
from support.pretrained import save_llama, save_tokenizer
from support.processes import python

transformers.logging.set_verbosity_error()
TOKENS = torch.randint(3, 26, (129,), generator=torch.Generator().manual_seed(0))
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
ROUNDED = 1e-4
"""float32 logits of order ten, four layers deep, each a sum of 32 products in another order: 10 · 4 · 32 · 2⁻²⁴."""


@torch.no_grad()
def their_losses(model: torch.nn.Module, tokens: torch.Tensor = TOKENS) -> torch.Tensor:
    logits = model(input_ids=tokens[None, :-1], use_cache=False).logits[0].float()
    return F.cross_entropy(logits, tokens[1:], reduction="none")


@pytest.mark.parametrize("family", tiny_folders.MIXED)
def test_models_of_mixed_layers_are_read_in_pieces_and_stretched_as_their_config_would(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "PIECE", 24)  # neither a divisor of the length nor of the window
    model = tiny_folders.save(family, tmp_path)
    ours = Pretrained.from_path(tmp_path)
    own = ours.with_scaling(ours.scaling, 128)
    assert torch.allclose(ours.losses(TOKENS, own), their_losses(model), rtol=0, atol=ROUNDED)
    config = json.loads((tmp_path / "config.json").read_text())
    config.get("text_config", config).update(ours.patch(Linear(2.0), 128))
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    told = type(model).from_pretrained(tmp_path).eval()
    linear = ours.losses(TOKENS, ours.with_scaling(Linear(2.0), 128))
    assert torch.allclose(linear, their_losses(told), rtol=0, atol=ROUNDED)
    assert not torch.allclose(linear, their_losses(model), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("model_type", "scaling"),
    [
        ("falcon_h1", {"lm_head_multiplier": 0.02}),
        ("hyperclovax", {"logits_scaling": 0.125}),
        ("granite", {"logits_scaling": 8.0}),
        ("cohere", {"logit_scale": 0.0625}),
    ],
)
def test_logits_are_scaled_as_the_model_scales_them(
    model_type: str, scaling: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same key divides in one family and multiplies in another."""
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {model_type}")
    monkeypatch.setattr(load, "PIECE", 24)
    small = shrunk(copy.deepcopy(CONFIG_MAPPING[model_type]().to_dict()))
    config = CONFIG_MAPPING[model_type].from_dict({**small, **scaling})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    torch.nn.init.normal_(model.get_output_embeddings().weight)
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    ours = Pretrained.from_path(tmp_path)
    encoding = ours.with_scaling(ours.scaling, 128)
    assert torch.allclose(ours.losses(TOKENS, encoding), their_losses(model), rtol=0, atol=ROUNDED)
    assert model(input_ids=TOKENS[None, :60], use_cache=False).logits[0, -1].float().std() > 0.01


def test_weights_that_differ_anywhere_have_another_identity(tmp_path: Path) -> None:
    """In the middle of a file of the same size too, where a merged adapter changes it."""
    file = tmp_path / "model.safetensors"
    before = bytes(5 * 2**20)
    file.write_bytes(before)
    known = identity(tmp_path)
    file.write_bytes(before[: 2**21] + b"\x01" + before[2**21 + 1 :])
    assert identity(tmp_path) != known
    file.write_bytes(before)
    assert identity(tmp_path) == known


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    pytest.importorskip("gguf")
    from support.tiny_gguf import save_gguf

    save_gguf(file := tmp_path / "one.gguf")
    return file


def test_a_gguf_file_is_tuned_and_written_as_a_folder(gguf_file: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("cdefghij" * 500)
    asked = words(gguf_file, tmp_path / "text.txt", "2x", "--output", tmp_path / "out")
    said(*asked, "--methods", "yarn", "--documents", "2", "--finetune", "2")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_gguf_file_of_other_weights_becomes_a_folder(dtype: torch.dtype, gguf_file: Path, tmp_path: Path) -> None:
    """Bit for bit, its tokenizer and its scaling too."""
    model = Pretrained.from_path(gguf_file, dtype=dtype)
    weights = {name: w + 0.125 for name, w in model.model.state_dict().items()}
    model.save(tmp_path / "tuned", weights, YaRN(2.0, 64), 128)
    again = Pretrained.from_path(tmp_path / "tuned", dtype=dtype)
    assert all(torch.equal(weight, weights[name]) for name, weight in again.model.state_dict().items())
    assert (again.scaling, again.original_length) == (YaRN(2.0, 64), 128)
    assert torch.equal(again.encode(b"abcdabcd"), model.encode(b"abcdabcd"))


def test_a_model_that_was_released_longer_is_extended_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice of what it is tuned to, while methods scale what it was before any scaling."""
    save_llama(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    scaled = {**LLAMA3, "rope_theta": config["rope_parameters"]["rope_theta"]}
    config |= {"rope_parameters": scaled, "max_position_embeddings": 256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = Pretrained.from_path(tmp_path)
    assert (model.original_length, model.pretrained_length) == (256, 64)
    (tmp_path / "text.txt").write_text("abcdefghij" * 60)
    ask = partial(workbench.extend, tmp_path, text=tmp_path / "text.txt", methods=("yarn", "linear"))
    shown = StringIO()
    found = ask(543, replace_scaling=True, console=Console(file=shown, width=200)).extension  # none is its own
    assert found.length == 512
    assert "trained to 256, extended to 512;" in shown.getvalue()
    assert [c.method.scaling for c in found.curves] == [
        model.scaling,
        YaRN(8.0, 64),
        Linear(8.0),
    ]
    with pytest.raises(InvalidArgument, match="add --replace-scaling"):
        ask("2x")
    with pytest.raises(InvalidArgument, match="is not far enough past"):
        ask(model.original_length)
    assert model.patch(Linear(8.0), 512)["max_position_embeddings"] == 512
    monkeypatch.setattr(Pretrained, "scaling", NTK(1000.0))
    with pytest.raises(InvalidArgument, match="fold it into rope_theta"):
        ask("2x", replace_scaling=True)


def test_shards_are_mapped_in_their_own_type_and_score_the_same(tmp_path: Path) -> None:
    whole = tiny_folders.save("smollm3", tmp_path / "whole")
    whole.to(torch.bfloat16).save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    tiny_folders.save_tokenizer(tmp_path / "shards")
    shards = sorted((tmp_path / "shards").glob("*.safetensors"))
    assert len(shards) > 2
    ours = Pretrained.from_path(tmp_path / "shards", dtype=torch.bfloat16)
    assert {p.dtype for p in ours.model.parameters()} == {torch.bfloat16}
    maps = Path("/proc/self/maps")
    if maps.exists():  # elsewhere nobody says what is mapped
        assert all(str(shard) in maps.read_text() for shard in shards)
    losses = ours.losses(TOKENS, ours.with_scaling(ours.scaling, 128))
    assert losses.dtype == torch.float32
    assert torch.allclose(losses, their_losses(whole), rtol=0, atol=2**-8 * 10 * 4)  # of logits, a layer each
    assert Pretrained.from_path(tmp_path / "whole").identity != ours.identity


def test_a_cache_of_another_kind_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is no list of keys and values may not go on in pieces: such a model reads a text at once."""
    monkeypatch.setattr(load, "PIECE", 24)
    model = tiny_folders.save("smollm3", tmp_path)
    ours = Pretrained.from_path(tmp_path)
    assert ours._parts
    ours.__dict__["_parts"] = False
    own, ticks = ours.with_scaling(ours.scaling, 128), list[float]()
    assert torch.allclose(ours.losses(TOKENS, own, ticks.append), their_losses(model), rtol=0, atol=ROUNDED)
    assert ticks == [1.0]


@pytest.mark.parametrize("family", ["gemma3", "smollm3"])
def test_what_is_saved_opens_in_transformers_with_the_same_logits(family: str, tmp_path: Path) -> None:
    model = tiny_folders.save(family, tmp_path)
    ours = Pretrained.from_path(tmp_path)
    weights = {name: p + 0.01 for name, p in ours.model.state_dict().items()}
    ours.save(tmp_path / "tuned", weights, YaRN(2.0, 64), 128)
    told = type(model).from_pretrained(tmp_path / "tuned").eval()
    transformers.AutoTokenizer.from_pretrained(tmp_path / "tuned")
    ours.model.load_state_dict(weights)
    losses = ours.losses(TOKENS, ours.with_scaling(YaRN(2.0, 64), 128))
    assert torch.allclose(losses, their_losses(told), rtol=0, atol=ROUNDED)


@pytest.mark.long
def test_the_command_says_what_it_needs_and_leaves_the_tuned_weights(tmp_path: Path) -> None:
    """Opened by transformers alone they lose what extend measured; gone or damaged, they are made again."""
    tiny_folders.save("gemma3_text", model := tmp_path / "model")
    (tmp_path / "text.txt").write_text("abcdefghij" * 400)
    asked = words(model, tmp_path / "text.txt", "2x", "--output", tmp_path / "out")
    asked += ["--methods", "yarn", "--documents", "2", "--finetune", "3"]
    assert "GiB of weights, and up to 0." in said(*asked)
    told = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "tuned").eval()
    tokens = Pretrained.from_path(model).encode(b"abcdefghij" * 13)[:129]
    with Ledger(tmp_path / "out") as ledger:
        rows = ledger._db.execute("SELECT plan, id FROM runs").fetchall()
        whole = "SELECT run, detail FROM cells WHERE measure = 'document 0' AND length = 128"
        details = dict(ledger._db.execute(whole))
    tuned = [details[run] for plan, run in rows if json.loads(plan)["steps"] == 3]
    found = their_losses(told, tokens).view(-1, 16).mean(1).tolist()
    assert any(json.loads(each) == pytest.approx(found, abs=ROUNDED) for each in tuned)
    kept = sorted((tmp_path / "out" / "checkpoints").glob("*.safetensors"))
    assert len(kept) == 2
    before = [file.read_bytes() for file in kept]
    kept[0].write_bytes(before[0][:100])
    kept[1].unlink()
    said(*asked)
    assert [file.read_bytes() for file in kept] == before


def test_damaged_folders_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    tiny_folders.save("smollm3", tmp_path)
    config = tmp_path / "config.json"
    stated = json.loads(config.read_text())
    config.write_text(json.dumps({**stated, "hidden_act": "grelu"}))
    with pytest.raises(InvalidArgument, match=r"config.json' does not describe a model .*grelu.*; correct it"):
        Pretrained.from_path(tmp_path)
    config.write_text(json.dumps(stated))
    (tmp_path / "model.safetensors").rename(tmp_path / "model.bin")
    with pytest.raises(StudyError, match=r"has no \.safetensors file, and pickled weights are not read"):
        Pretrained.from_path(tmp_path)


READ = """
import resource, sys
from pathlib import Path
import torch
from posenc.integrations.huggingface.folder import identity
from posenc.integrations.huggingface.load import Pretrained
from posenc.integrations.huggingface.measuring.shrink import shrunk
model = Pretrained.from_path(Path(sys.argv[1]))
tokens = torch.randint(3, 26, (int(sys.argv[2]) + 1,))
encoding = model.with_scaling(model.scaling, len(tokens))
model.losses(tokens[:1025], encoding)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.losses(tokens, encoding)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, model.memory(len(tokens) - 1))
"""


@pytest.mark.slow
def test_32_thousand_tokens_take_no_more_memory_than_was_said(tmp_path: Path) -> None:
    """And what was said is no square of the length: a mask of 32k by 32k would be four gigabytes of numbers."""
    tiny_folders.save("gemma3_text", tmp_path)
    took, promised = map(int, python("-c", READ, tmp_path, 32768).split())
    assert took <= promised < 2**28
