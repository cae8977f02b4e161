"""One file per encoding: the paper, the formula, pure functions, and a module."""

from posenc.encodings.alibi import ALiBi as ALiBi
from posenc.encodings.bias import DistanceBias as DistanceBias
from posenc.encodings.catalogue import CATALOGUE as CATALOGUE
from posenc.encodings.catalogue import encoding as encoding
from posenc.encodings.encoding import Encoding as Encoding
from posenc.encodings.encoding import Placed as Placed
from posenc.encodings.learned import Learned as Learned
from posenc.encodings.nope import NoPE as NoPE
from posenc.encodings.rerotate import rerotate as rerotate
from posenc.encodings.rotary import Rotary as Rotary
from posenc.encodings.sinusoidal import Sinusoidal as Sinusoidal
