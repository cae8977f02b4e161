"""Random cases against answers derived apart from the library, area by area.

``python -m tools.campaign rotation --minutes 30 --seed 1`` draws cases of one area until the time is up and prints
every one whose result differs from the oracle's, with the line that repeats it alone. ``--plant FAULT`` breaks the
library on purpose first: a campaign that finds nothing is worth as much as the faults that it is known to catch.

A file here draws the cases of an area and says how the library is called; the file of the same name in ``oracles``
has the formulas, from the papers, in NumPy and mpmath, and imports nothing of posenc.
"""
