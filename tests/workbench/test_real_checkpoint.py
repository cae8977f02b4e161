"""A real pretrained model (stories260K) speaks through our transformer; with the wrong pairing it babbles."""

import math
from pathlib import Path

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.workbench.run.transformer import Cache, Transformer
from support.llama2c import Tokenizer, UnreadableFile, load, load_tokenizer

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


def test_text_survives_the_tokenizer(tokenizer: Tokenizer) -> None:
    for text in (STORY, "", "Ünïcödé 漢字 \n\t\0 <s>", " two  spaces "):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(STORY)) < len(STORY) / 2.5, "pieces were merged"
    with pytest.raises(InvalidArgument, match="tokens hold 512; this tokenizer has 512, 0 to 511"):
        tokenizer.decode([512])


def test_the_story_is_what_the_model_expects(model: Transformer, tokenizer: Tokenizer) -> None:
    """Far below the loss of guessing; and reading with a cache gives what reading at once gives."""
    tokens = tokenizer.encode(STORY)
    assert loss(model, tokens) < 0.2 * math.log(512)
    row, cache = torch.tensor([tokens]), Cache()
    model = model.double()  # so that equal means twelve digits
    with torch.no_grad():
        pieces = torch.cat([model(piece, cache=cache) for piece in row.split(7, dim=1)], dim=1)
        torch.testing.assert_close(pieces, model(row), rtol=0, atol=1e-11)


def test_damaged_models_are_refused(shared_data: Path, tmp_path: Path) -> None:
    whole = (shared_data / "stories260K.bin").read_bytes()
    damages = {
        "a header of 28": whole[:20],
        "its header announces 1056540": whole[:-4],
        "where its header announces": whole + b"more",
        "its header reads": b"\0" * len(whole),
        "no llama2.c model": bytes(range(256)) * 4000,
        "not finite": whole[:1000] + b"\xff" * 4 + whole[1004:],
        "no cos and sin of base 10000": whole[:-4096] + whole[28 : 28 + 4096],
    }
    for message, damaged in damages.items():
        path = tmp_path / "damaged.bin"
        path.write_bytes(damaged)
        with pytest.raises(UnreadableFile, match=message):
            load(path)
    with pytest.raises(UnreadableFile, match=r"cannot read .*none\.bin: No such file"):
        load(tmp_path / "none.bin")


def test_damaged_tokenizers_are_refused(shared_data: Path, tmp_path: Path) -> None:
    whole = (shared_data / "tok512.bin").read_bytes()
    for message, damaged, vocabulary in (
        ("ends after 511 of 512 tokens", whole[:-11], 512),
        ("ends after 512 of 513 tokens", whole, 513),
        ("goes on after 511 tokens", whole, 511),
        ("no llama2.c tokenizer: token 0 would have", b"\xff" * 100, 512),
    ):
        path = tmp_path / "damaged.bin"
        path.write_bytes(damaged)
        with pytest.raises(UnreadableFile, match=message):
            load_tokenizer(path, vocabulary)
