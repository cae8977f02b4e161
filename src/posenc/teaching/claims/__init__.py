"""Common statements about positional encodings; running the library gives each its verdict."""
