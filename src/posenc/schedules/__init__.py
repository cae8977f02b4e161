"""How the clock's frequencies are set for the trained length, and changed for longer contexts."""

from posenc.schedules.default import Default as Default
from posenc.schedules.schedule import Schedule as Schedule
from posenc.schedules.spectrum import Spectrum as Spectrum
