"""Other names: synonyms of ours, and words of papers, authors and models for them."""

ALIASES = {"rope": "rotary"}
"""Accepted in place of a name, and replaced by that name."""

WORDS = {
    "rotary": ("rope", "roformer", "rotary-embedding", "rotation"),
    "sinusoidal": ("sinusoid", "sine", "sin", "cos", "vaswani", "absolute"),
    "learned": ("learnt", "ape", "gpt2", "embedding"),
    "nope": ("none", "no"),
    "alibi": ("press", "linear-bias", "bloom"),
    "linear": ("pi", "interpolation"),
    "ntk": ("ntk-aware",),
    "width": ("d_model", "dim", "hidden_size"),
    "heads": ("n_heads", "num_heads"),
    "base": ("theta", "rope_theta"),
    "pairing": ("is_neox_style", "rotary_interleaved"),
    "causal": ("is_causal",),
    "mask": ("attn_mask", "attention_mask"),
    "window": ("sliding_window", "window_size"),
    "dropout": ("dropout_p",),
    "softcap": ("logits_soft_cap",),
}
"""The suggestion for a word that is not a name."""

MEANT = {word: name for name, words in WORDS.items() for word in words}

REMAPS = {
    "self-extend": "posenc.remap:SelfExtend",
    "dca": "posenc.remap:DCA",
    "rerope": "posenc.remap:ReRoPE",
    "string": "posenc.remap:STRING",
}
"""Encodings that remap the positions of another encoding, and their classes, which are imported on use."""

NO_LENGTH = "positions need no maximum here: omit it"
HINTS = {
    "pairing": "half in Llama and most checkpoints, interleaved in GPT-J; the wrong one breaks a checkpoint",
    "two_sided": "its bias is the same on both sides, and causal= of posenc.attention hides later keys",
    "attn_mask": "pass a tensor in the shape of scores as mask=posenc.Mask(dense=…)",
    **dict.fromkeys(("max_seq_len", "max_position_embeddings", "max_length", "seq_len"), NO_LENGTH),
    **dict.fromkeys(("device", "dtype"), "move and cast the module: .to(…)"),
}
"""The message for an unknown or missing argument of this name."""
