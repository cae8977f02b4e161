"""A study: its settings, presets and files, the comparison of its encodings, and its results."""
