"""What a page is made of: parts with titles, and in them words, pictures, tables, facts and code."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str
    quiet: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure in four makes, ``light``, ``dark``, ``light-narrow`` and ``dark-narrow``: addresses of images."""

    sources: Mapping[str, str]
    alt: str
    caption: str = ""
    name: str = ""


@dataclass(frozen=True)
class Row:
    """One row of a table: its name, numbers with the small print under each, and how it stands out.

    Args:
        kind: ``"best"``, ``"open"`` for what is shown and not ranked, or nothing.
        colour: a name of ``scene.colours.LINES``.
    """

    name: str
    cells: tuple[tuple[str, str], ...]
    kind: str = ""
    colour: str = ""


@dataclass(frozen=True)
class Table:
    """``worded`` are the columns, counted from 0, that hold words rather than numbers."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    worded: tuple[int, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Names with a sentence each; those without one are left out."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    """Text as it is typed or stored; with a ``title`` it is folded away, with a ``file`` it can be saved."""

    text: str
    title: str = ""
    file: str = ""
    open: bool = False


Block = Words | Picture | Table | Facts | Code


@dataclass(frozen=True)
class Part:
    """A section with its title; ``anchor`` is its address within the page."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A page: what kind it is, its answer in a sentence, and its parts.

    Args:
        command: what made it, as it was typed.
        made: versions, as words; by default those that run now.
    """

    kind: str
    answer: str
    lead: str
    parts: tuple[Part, ...]
    command: str = ""
    made: str = ""
