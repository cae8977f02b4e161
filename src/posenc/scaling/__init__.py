"""Scalings are rules for the frequencies of a rotation, at the trained length or in longer contexts."""

from posenc.scaling.default import Default as Default
from posenc.scaling.dynamic import DynamicNTK as DynamicNTK
from posenc.scaling.frequencies import Frequencies as Frequencies
from posenc.scaling.linear import Linear as Linear
from posenc.scaling.llama3 import Llama3 as Llama3
from posenc.scaling.longrope import LongRoPE as LongRoPE
from posenc.scaling.longrope import PerPair as PerPair
from posenc.scaling.ntk import NTK as NTK
from posenc.scaling.proportional import Proportional as Proportional
from posenc.scaling.registry import METHODS as METHODS
from posenc.scaling.registry import SCALINGS as SCALINGS
from posenc.scaling.registry import from_dict as from_dict
from posenc.scaling.registry import method as method
from posenc.scaling.registry import to_dict as to_dict
from posenc.scaling.scaling import LengthScaling as LengthScaling
from posenc.scaling.scaling import Scaling as Scaling
from posenc.scaling.scaling import planned as planned
from posenc.scaling.yarn import YaRN as YaRN
