"""Common statements about positional encodings; each gets its verdict by running the library."""
