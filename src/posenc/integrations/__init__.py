"""Bridges to other libraries, one folder each; `import posenc` does not load them.

``attention_layouts`` needs no library: it describes, as data, how public image and video models rotate.
"""
