"""The lessons as data: the questions they ask, and where each of their sections is found here."""
