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


@torch.no_grad()
def greedy_length(model: Transformer, tokens: list[int]) -> int:
    """The number of leading tokens of a text that the model writes if it takes the likeliest token each time."""
    likeliest = model(torch.tensor([tokens]))[0, :-1].argmax(-1)
    return int((likeliest == torch.tensor(tokens[1:])).long().cumprod(0).sum())


@torch.no_grad()
def loss(model: Transformer, tokens: list[int]) -> float:
    row = torch.tensor([tokens])
    return torch.nn.functional.cross_entropy(model(row)[0, :-1], row[0, 1:]).item()


def test_it_tells_the_story(model: Transformer, tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode(STORY)
    assert greedy_length(model, tokens) == len(tokens) - 1


def test_with_the_wrong_pairing_it_does_not(shared_data: Path, model: Transformer, tokenizer: Tokenizer) -> None:
    wrong = load(shared_data / "stories260K.bin", pairing="half")
    tokens = tokenizer.encode(STORY)
    assert greedy_length(wrong, tokens) < len(tokenizer.encode(STORY[:60])) - 1
    assert loss(wrong, tokens) > loss(model, tokens) + 1


def test_the_story_is_what_the_model_expects(model: Transformer, tokenizer: Tokenizer) -> None:
    """Far below the loss of guessing."""
    assert loss(model, tokenizer.encode(STORY)) < 0.2 * math.log(512)
