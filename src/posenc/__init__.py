"""posenc: the position layer for transformers."""

__version__ = "0.1.0"

from posenc import errors as errors
from posenc import positions as positions
from posenc import schedules as schedules
from posenc.attention import attention as attention
from posenc.attention import scores as scores
from posenc.clock import Clock as Clock
from posenc.encodings import CATALOGUE as CATALOGUE
from posenc.encodings import ALiBi as ALiBi
from posenc.encodings import Bias as Bias
from posenc.encodings import Encoding as Encoding
from posenc.encodings import FoX as FoX
from posenc.encodings import Heads as Heads
from posenc.encodings import Layers as Layers
from posenc.encodings import Learned as Learned
from posenc.encodings import NoPE as NoPE
from posenc.encodings import OffsetBias as OffsetBias
from posenc.encodings import Placed as Placed
from posenc.encodings import QueryScale as QueryScale
from posenc.encodings import Rotary as Rotary
from posenc.encodings import Sinusoidal as Sinusoidal
from posenc.encodings import SomeHeads as SomeHeads
from posenc.encodings import Stack as Stack
from posenc.encodings import T5 as T5
from posenc.encodings import encoding as encoding
from posenc.encodings import rerotate as rerotate
from posenc.laws import check as check
from posenc.sight import Sight as Sight
