"""A tiny random Llama on disk, with a tokenizer that has one token per character, for tests of extend."""

from pathlib import Path
from string import ascii_lowercase

import torch

LETTERS = bytes(torch.randint(97, 123, (4000,), generator=torch.Generator().manual_seed(3)).tolist())
"""A text that the tokenizer can read."""


def save_llama(folder: Path, characters: str = ascii_lowercase, trained: int = 64) -> None:
    """Save a model with the vocabulary ``characters`` and '?' (any other), and the trained length ``trained``."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=len(characters) + 4,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=trained,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
    model = transformers.LlamaForCausalLM(config)
    own = torch.Generator().manual_seed(0)  # how many numbers a release of transformers draws is its own affair
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.3, generator=own)
    model.save_pretrained(folder)
    save_tokenizer(folder, characters)


def save_tokenizer(folder: Path, characters: str = ascii_lowercase) -> None:
    """Save a tokenizer with a token for each of these characters, and one token for all other characters."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {c: i for i, c in enumerate((*characters, "?"))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?").save_pretrained(folder)
