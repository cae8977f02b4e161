"""The class ``Mask`` determines which keys a query may see. This package also checks the tensors of masks, and
reads the lengths of documents and padding from them.
"""

from posenc.mask.mask import CAUSAL as CAUSAL
from posenc.mask.mask import EVERYTHING as EVERYTHING
from posenc.mask.mask import Keys as Keys
from posenc.mask.mask import Mask as Mask
from posenc.mask.mask import Queries as Queries
from posenc.mask.tensors import PER_KEY as PER_KEY
from posenc.mask.tensors import PER_QUERY as PER_QUERY
