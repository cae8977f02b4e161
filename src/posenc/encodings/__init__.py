"""All encodings have the same interface, and each encoding has its own file. ``posenc`` exports all of them."""
