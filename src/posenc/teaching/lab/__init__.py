"""The lab, a local page on which you drag, click and break positional encodings. The library computes every
number."""
