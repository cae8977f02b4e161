"""Common statements about positional encodings, each with a verdict that the library tests."""
