"""The settings, presets and files of a study, the comparison of its encodings, and its results."""
