"""A real pretrained model (stories260K) speaks through our transformer; with the wrong pairing it babbles."""

import math
from pathlib import Path

import pytest
import torch

from posenc.workbench.run.transformer import Transformer
from support.llama2c import Tokenizer, load, load_tokenizer

STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she "
    "saw a big, red ball. She wanted to play with it, but it was too high"
)


@pytest.fixture
def model(shared_data: Path) -> Transformer:
    return load(shared_data / "stories260K.bin")


@pytest.fixture
def tokenizer(shared_data: Path) -> Tokenizer:
    return load_tokenizer(shared_data / "tok512.bin", 512)


def tell(model: Transformer, tokenizer: Tokenizer, length: int = 60) -> str:
    return tokenizer.decode(model.generate(torch.tensor([[1]]), length)[0].tolist())


@torch.no_grad()
def loss(model: Transformer, tokens: list[int]) -> float:
    row = torch.tensor([tokens])
    return torch.nn.functional.cross_entropy(model(row)[0, :-1], row[0, 1:]).item()


def test_it_tells_the_story(model: Transformer, tokenizer: Tokenizer) -> None:
    assert tell(model, tokenizer).startswith(STORY)


def test_with_the_wrong_pairing_it_does_not(shared_data: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    wrong = load(shared_data / "stories260K.bin", pairing="half")
    assert not tell(wrong, tokenizer).startswith(STORY[:60])
    tokens = tokenizer.encode(STORY)
    assert loss(wrong, tokens) > loss(model, tokens) + 1


def test_the_story_is_what_the_model_expects(model: Transformer, tokenizer: Tokenizer) -> None:
    """Far below the loss of guessing."""
    assert loss(model, tokenizer.encode(STORY)) < 0.2 * math.log(512)
