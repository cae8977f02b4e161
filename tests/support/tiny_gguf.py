"""A tiny random Llama in a .gguf file with a tokenizer, as written by llama.cpp's converter."""

from pathlib import Path
from string import ascii_lowercase

import gguf
import numpy as np

from support.files import finish

WIDTH, LAYERS, TOKENS, INNER = 32, 2, 64, 32


def save_gguf(file: Path) -> None:
    made = gguf.GGUFWriter(str(file), "llama")
    made.add_context_length(64)
    made.add_embedding_length(WIDTH)
    made.add_block_count(LAYERS)
    made.add_feed_forward_length(INNER)
    made.add_head_count(2)
    made.add_head_count_kv(2)
    made.add_layer_norm_rms_eps(1e-5)
    made.add_rope_freq_base(1e4)
    made.add_vocab_size(TOKENS)
    names = ["<unk>", "<s>", "</s>", *ascii_lowercase, "ab"]
    made.add_tokenizer_model("gpt2")
    made.add_token_list([*names, *(f"<{i}>" for i in range(TOKENS - len(names)))])
    made.add_token_merges(["a b"])
    made.add_bos_token_id(1)
    made.add_eos_token_id(2)
    draw = np.random.default_rng(0)
    shapes = {"token_embd": (TOKENS, WIDTH), "output": (TOKENS, WIDTH), "output_norm": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{norm}_norm": (WIDTH,) for norm in ("attn", "ffn")}
        shapes |= {f"blk.{i}.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        shapes |= {f"blk.{i}.ffn_{part}": (INNER, WIDTH) for part in ("gate", "up")}
        shapes[f"blk.{i}.ffn_down"] = (WIDTH, INNER)
    for name, shape in shapes.items():
        weight = np.ones(shape) if len(shape) == 1 else 0.3 * draw.normal(size=shape)
        made.add_tensor(f"{name}.weight", weight.astype(np.float32))
    finish(made)
