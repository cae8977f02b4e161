"""The lessons as data: their questions, and where posenc covers each of their sections."""
