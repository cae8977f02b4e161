"""What people call things: other names for ours, and words of papers, authors and models that mean one."""

ALIASES = {"rope": "rotary"}
"""Taken wherever a name is, and written down by the name that it stands for."""

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
    "base": ("theta",),
}
"""What is suggested to somebody who types one of these words where it is no name."""

MEANT = {word: name for name, words in WORDS.items() for word in words}

REMAPS = {
    "self-extend": "posenc.remap:SelfExtend",
    "dca": "posenc.remap:DCA",
    "rerope": "posenc.remap:ReRoPE",
    "string": "posenc.remap:STRING",
}
"""Encodings that remap the positions of another, and their classes, which are imported when one is built."""
