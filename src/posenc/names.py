"""Aliases and other synonyms for the names of posenc's encodings, scalings, arguments and functions. An alias is
accepted in place of the name. Any other synonym raises an error whose message suggests the name.
"""

ALIASES = {"rope": "rotary"}
"""Alternative names that are accepted, each with the name for which it stands."""

WORDS = {
    "rotary": ("rope", "roformer", "rotary-embedding", "rotaryembedding", "rotation"),
    "sinusoidal": ("sinusoid", "sine", "sin", "cos", "vaswani", "absolute", "positionalencoding"),
    "learned": ("learnt", "ape", "gpt2", "embedding"),
    "nope": ("none", "no"),
    "alibi": ("press", "linear-bias", "bloom"),
    "linear": ("pi", "interpolation"),
    "ntk": ("ntk-aware", "base"),
    "width": ("d_model", "dim", "hidden_size"),
    "head_dim": ("dim", "head_size", "dim_head"),
    "heads": ("n_heads", "num_heads", "num_attention_heads"),
    "base": ("theta", "rope_theta"),
    "pairing": ("is_neox_style", "rotary_interleaved"),
    "causal": ("is_causal",),
    "mask": ("attn_mask", "attention_mask"),
    "key_mask": ("attention_mask", "key_padding_mask"),
    "window": ("sliding_window", "window_size"),
    "dropout": ("dropout_p",),
    "softcap": ("logits_soft_cap",),
    "scaling": ("yarn", "rope_scaling", "rope_parameters", "dynamicntk", "longrope"),
    "attention": ("scaled_dot_product_attention", "sdpa", "flash_attn_func", "flex_attention"),
    "original_length": ("original_max_position_embeddings",),
}
"""For each name in posenc, the other words for which error messages suggest it."""

MEANT = {word: [name for name in WORDS if word in WORDS[name]] for words in WORDS.values() for word in words}
"""For each word in ``WORDS``, the names that it may stand for."""

REMAPS = {
    "self-extend": "posenc.remap:SelfExtend",
    "dca": "posenc.remap:DCA",
    "rerope": "posenc.remap:ReRoPE",
    "string": "posenc.remap:STRING",
}
"""Encodings that remap the positions of another encoding, and their classes, which are imported on use."""

HINTS = {
    "pairing": "half in Llama and most checkpoints, interleaved in GPT-J; the wrong one breaks a checkpoint",
    "two_sided": "the bias is the same on both sides; pass causal=True to posenc.attention to hide later keys",
    "attn_mask": "pass a tensor with the shape of the scores as mask=posenc.Mask(dense=…)",
    "attention_mask": "pass 0 or 1 per token as mask=posenc.Mask(key_mask=attention_mask.bool())",
    "key_padding_mask": "in key_padding_mask, True hides a key; pass mask=posenc.Mask(key_mask=~key_padding_mask)",
    **dict.fromkeys(
        ("key_mask", "dense", "q_order", "k_order", "q_segments", "k_segments"),
        "set it in the mask: mask=posenc.Mask(…)",
    ),
    **dict.fromkeys(
        ("max_seq_len", "max_position_embeddings", "max_length", "seq_len"),
        "positions need no maximum here; omit it",
    ),
    **dict.fromkeys(("device", "dtype"), "move or cast the module with .to(…)"),
}
"""The hints of error messages about unknown or missing arguments with these names."""
