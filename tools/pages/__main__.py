"""``python -m tools.pages``, in the root of the repository; ``make pages`` calls it."""

from tools.pages import write

write()
