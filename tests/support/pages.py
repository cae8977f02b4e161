"""The anchors of a page in docs."""

import re


def anchors(text: str) -> set[str]:
    """The anchors of headings: those that are stated, and headings of one word, which are their own anchors."""
    return {*re.findall(r"\{ #([\w-]+) \}", text), *re.findall(r"^#+ ([a-z0-9-]+)$", text, re.MULTILINE)}
