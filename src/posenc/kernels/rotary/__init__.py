"""Rotation of queries and keys by tables of cos and sin: one entry, ``turn``, and those who compute behind it."""

from posenc.kernels.rotary.by_native import Step as Step
from posenc.kernels.rotary.entry import Tables as Tables
from posenc.kernels.rotary.entry import step as step
from posenc.kernels.rotary.entry import tables as tables
from posenc.kernels.rotary.entry import turn as turn
from posenc.kernels.rotary.specification import rotate as rotate
