"""How the clock's frequencies are set for the trained length, and changed for longer contexts."""

from posenc.schedules.default import Default as Default
from posenc.schedules.dynamic import DynamicNTK as DynamicNTK
from posenc.schedules.linear import Linear as Linear
from posenc.schedules.llama3 import Llama3 as Llama3
from posenc.schedules.longrope import LongRoPE as LongRoPE
from posenc.schedules.longrope import PerPair as PerPair
from posenc.schedules.ntk import NTK as NTK
from posenc.schedules.proportional import Proportional as Proportional
from posenc.schedules.pruned import Pruned as Pruned
from posenc.schedules.registry import METHODS as METHODS
from posenc.schedules.registry import SCHEDULES as SCHEDULES
from posenc.schedules.registry import from_dict as from_dict
from posenc.schedules.registry import method as method
from posenc.schedules.registry import to_dict as to_dict
from posenc.schedules.schedule import LengthSchedule as LengthSchedule
from posenc.schedules.schedule import Schedule as Schedule
from posenc.schedules.schedule import planned as planned
from posenc.schedules.spectrum import Spectrum as Spectrum
from posenc.schedules.yarn import YaRN as YaRN
