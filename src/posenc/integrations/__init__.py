"""Integrations with other libraries and programs, which `import posenc` does not load.

``attention_layouts`` needs no other library and describes how public image and video models rotate queries and
keys.
"""
