"""posenc: the position layer for transformers."""

__version__ = "0.1.0"

from posenc import errors as errors
from posenc import positions as positions
from posenc import schedules as schedules
from posenc.attention import attention as attention
from posenc.clock import Clock as Clock
from posenc.encodings import CATALOGUE as CATALOGUE
from posenc.encodings import ALiBi as ALiBi
from posenc.encodings import DistanceBias as DistanceBias
from posenc.encodings import Encoding as Encoding
from posenc.encodings import Learned as Learned
from posenc.encodings import NoPE as NoPE
from posenc.encodings import Placed as Placed
from posenc.encodings import Rotary as Rotary
from posenc.encodings import Sinusoidal as Sinusoidal
from posenc.encodings import encoding as encoding
from posenc.encodings import rerotate as rerotate
