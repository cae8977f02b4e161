"""``python -m tools.pages`` from the root of the repository, as ``make pages`` calls it."""

from tools.pages import write

write()
