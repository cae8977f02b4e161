"""What a page of docs can be linked at."""

import re


def anchors(text: str) -> set[str]:
    """Addresses of its headings: those that are stated, and headings of one word that are addresses themselves."""
    return {*re.findall(r"\{ #([\w-]+) \}", text), *re.findall(r"^#+ ([a-z0-9-]+)$", text, re.MULTILINE)}
