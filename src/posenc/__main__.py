"""``python -m posenc`` runs the ``posenc`` command."""

from posenc.cli import main

main()
