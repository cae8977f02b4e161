"""The lab: local web pages on which you change positional encodings with the mouse and see where they fail. The
library computes every number.
"""
