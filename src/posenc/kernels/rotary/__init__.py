"""Rotation of queries and keys by tables of cos and sin, with ``rotate_both`` and its backends."""

from posenc.kernels.rotary.by_native import Step as Step
from posenc.kernels.rotary.by_native import step as step
from posenc.kernels.rotary.entry import Tables as Tables
from posenc.kernels.rotary.entry import rotate_both as rotate_both
from posenc.kernels.rotary.specification import rotate as rotate
