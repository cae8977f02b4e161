"""Bridges to other libraries, each in a folder of its own that `import posenc` never loads."""
