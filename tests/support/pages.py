"""The anchors of a page in docs."""

import re


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, which are stated, or are the heading itself if it is a single word."""
    return {*re.findall(r"\{ #([\w-]+) \}", text), *re.findall(r"^#+ ([a-z0-9-]+)$", text, re.MULTILINE)}
