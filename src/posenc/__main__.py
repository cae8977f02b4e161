"""``python -m posenc`` is the ``posenc`` command."""

from posenc.cli import main

main()
