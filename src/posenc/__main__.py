"""``python -m posenc`` is the ``posenc`` command."""

from posenc.workbench.cli import main

main()
