"""Bridges to other libraries, each in a folder of its own that `import posenc` never loads.

``attention_layouts`` needs no library: it says, as data, how public image and video models rotate.
"""
