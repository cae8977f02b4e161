"""``python -m posenc`` is the ``posenc`` command."""

from posenc.workbench.entry import main

main()
