"""The encodings: each is in its own file, and all have the same interface. ``posenc`` exports their names."""
