"""The checker of annotations at run time: beartype, where an int may stand for a float, as in ``base=10_000``."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
