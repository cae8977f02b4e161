"""The run-time checker of annotations: an int is a float, as in Python's own typing rules (PEP 484)."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
