"""Bridges to other libraries, each in a folder of its own that `import posenc` never loads.

``families`` needs no library: it says, as data, how public image and video models turn.
"""
