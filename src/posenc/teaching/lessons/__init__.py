"""The lessons as data: their questions, and the parts of posenc that cover each section."""
