"""Every encoding, one file each, behind one small interface."""

from posenc.encodings.alibi import ALiBi as ALiBi
from posenc.encodings.bias import Bias as Bias
from posenc.encodings.bias import OffsetBias as OffsetBias
from posenc.encodings.catalogue import CATALOGUE as CATALOGUE
from posenc.encodings.catalogue import encoding as encoding
from posenc.encodings.compose import Heads as Heads
from posenc.encodings.compose import SomeHeads as SomeHeads
from posenc.encodings.compose import Stack as Stack
from posenc.encodings.encoding import Encoding as Encoding
from posenc.encodings.fire import FIRE as FIRE
from posenc.encodings.fox import FoX as FoX
from posenc.encodings.kerple import Kerple as Kerple
from posenc.encodings.layers import Layers as Layers
from posenc.encodings.learned import Learned as Learned
from posenc.encodings.nope import NoPE as NoPE
from posenc.encodings.placed import Placed as Placed
from posenc.encodings.query_scale import QueryScale as QueryScale
from posenc.encodings.rerotate import rerotate as rerotate
from posenc.encodings.rotary import Rotary as Rotary
from posenc.encodings.sandwich import Sandwich as Sandwich
from posenc.encodings.shaw import Shaw as Shaw
from posenc.encodings.sinusoidal import Sinusoidal as Sinusoidal
from posenc.encodings.t5 import T5 as T5
