"""Every encoding, one file each, behind one small interface; ``posenc`` has their names."""
