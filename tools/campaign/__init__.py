"""Compare the library with independently derived answers on random cases, area by area.

``python -m tools.campaign rotation --minutes 30 --seed 1`` draws cases of one area until the time is up. It prints
each case whose result differs from the oracle's, with the command that repeats it. ``faults.py`` breaks the library
on purpose, and the tests show that the campaign catches each fault.

Each file here draws the cases of an area and calls the library. The file with the same name in ``oracles`` has the
papers' formulas in NumPy and mpmath, and does not import posenc.
"""
