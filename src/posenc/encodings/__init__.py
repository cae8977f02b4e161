"""Every encoding, one file each, behind one small interface. ``posenc`` exports their names."""
