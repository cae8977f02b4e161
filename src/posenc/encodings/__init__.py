"""All encodings, one file each, with the same small interface. ``posenc`` exports their names."""
