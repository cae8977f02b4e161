"""All encodings, one file each, with the same interface. ``posenc`` exports their names."""
