"""Statements about positional encodings, as commonly told, each settled by running the library."""
