"""Measures how a transformers model encodes positions, by running the model."""

from posenc.integrations.huggingface.measuring.measured import Measured as Measured
from posenc.integrations.huggingface.measuring.measured import MeasuredLayer as MeasuredLayer
from posenc.integrations.huggingface.measuring.measured import differences as differences
from posenc.integrations.huggingface.measuring.probe import measure as measure
