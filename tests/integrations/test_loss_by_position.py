"""A Trainer's loss by position: transformers' own losses of that moment, and a training that does not notice."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.nn import functional as F

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import loss_by_position
from support.pretrained import save_llama
from support.trainers import trained

TEXT = "".join(chr(97 + i * i % 26) for i in range(300))


@pytest.fixture
def llama(tmp_path: Path) -> Any:
    """Trained to 16, and dynamic: it keeps frequencies of the last text's length, with which training goes on."""
    save_llama(tmp_path, trained=16)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    config.attention_dropout = 0.5
    config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    return transformers.AutoModelForCausalLM.from_pretrained(tmp_path, config=config)


def test_losses_are_those_of_the_model_at_that_step(llama: Any, tmp_path: Path) -> None:
    tokenizer, told = transformers.AutoTokenizer.from_pretrained(tmp_path), dict[int, dict[str, float]]()
    before = copy.deepcopy(llama)
    callback = loss_by_position(TEXT, length=80, every=3, tokenizer=tokenizer, report=told.__setitem__)
    trainer = trained(tmp_path, llama, callback)
    assert list(told) == [0, 3, 4]
    assert list(told[0]) == ["loss_to_4", "loss_to_8", "loss_to_16", "loss_to_32", "loss_to_64", "loss_to_80"]
    ids = torch.tensor(tokenizer(TEXT)["input_ids"])[:81]
    for step, model in ((0, before), (4, llama)):
        with torch.no_grad():
            losses = F.cross_entropy(model.eval()(ids[None, :-1]).logits[0], ids[1:], reduction="none")
        parts = losses.split([4, 4, 8, 16, 32, 16])
        assert list(told[step].values()) == pytest.approx([float(p.mean()) for p in parts], abs=1e-4)
    logged = [one for one in trainer.state.log_history if "loss_to_80" in one]
    assert [{k: v for k, v in one.items() if k.startswith("loss_to")} for one in logged] == list(told.values())
    assert [one["step"] for one in logged] == [0, 3, 4]


def test_a_training_ends_in_the_same_weights(llama: Any, tmp_path: Path) -> None:
    tokenizer, other = transformers.AutoTokenizer.from_pretrained(tmp_path), copy.deepcopy(llama)
    tokenizer.pad_token = "?"
    trainer = trained(tmp_path, llama, loss_by_position(TEXT, every=1, length=3), processing_class=tokenizer)
    assert "loss_to_3" in trainer.state.log_history[0]
    trained(tmp_path, other, processing_class=tokenizer)
    assert llama.training == other.training
    torch.testing.assert_close(llama.state_dict(), other.state_dict(), rtol=0, atol=0)


def test_refusals(llama: Any, tmp_path: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for model, callback, message in (
        (llama, lambda: loss_by_position(TEXT, length=0), "length=0 must be at least 1"),
        (llama, lambda: loss_by_position(TEXT, every=0), "every=0 must be at least 1"),
        (
            transformers.GPT2LMHeadModel(transformers.GPT2Config(n_positions=16, n_embd=8, n_layer=1, n_head=1)),
            lambda: loss_by_position(TEXT[:16], tokenizer=tokenizer),
            "text has 16 tokens, but 16 positions need 17; pass a longer text",
        ),
        (llama, lambda: loss_by_position(TEXT), "tokenizer=None, and the Trainer has no processing_class"),
        (
            llama,
            lambda: loss_by_position(TEXT[:64], tokenizer=tokenizer),
            "text has 64 tokens, but 64 positions need 65; pass a longer text",
        ),
    ):
        with pytest.raises(InvalidArgument, match=message):
            trained(tmp_path, model, callback())
