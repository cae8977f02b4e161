"""Scaled dot-product attention that works with any encoding.

    y = softmax(scores) v,   scores = capped(q·kᵀ · scale · placed.scale) + placed.bias

capped(x) is softcap·tanh(x/softcap), or x without a softcap. Scores are −∞ where ``mask`` hides the key.
Attention applies ``placed.bias`` and ``placed.scale``. Rotate q and k with ``placed.rotate`` before the call.
``scores`` returns the scores as one tensor. ``attention`` returns y and stores no L×L tensor.
"""

from posenc.attend.attend import attention as attention
from posenc.attend.attend import explain as explain
from posenc.attend.dense import scores as scores
from posenc.attend.offers import Explanation as Explanation
from posenc.attend.ring import ring_attention as ring_attention
from posenc.kernels.attention.softmax import merge as merge
