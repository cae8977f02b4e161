"""Functions that read Hugging Face configs, and that measure, check, patch and convert models.

Functions that run models are imported on first use, so that reading a config does not load them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from posenc.errors import no_attribute
from posenc.integrations.huggingface.config import read as read
from posenc.integrations.huggingface.model_positions import ModelPositions as ModelPositions
from posenc.integrations.huggingface.write import changes as changes
from posenc.integrations.huggingface.write import write as write

if TYPE_CHECKING:
    from posenc.integrations.huggingface.convert import convert_pairing as convert_pairing
    from posenc.integrations.huggingface.measuring import Measured as Measured
    from posenc.integrations.huggingface.measuring import differences as differences
    from posenc.integrations.huggingface.measuring import measure as measure
    from posenc.integrations.huggingface.model_laws import check as check
    from posenc.integrations.huggingface.patch import patched as patched
    from posenc.integrations.huggingface.trainer import assert_packed as assert_packed
    from posenc.integrations.huggingface.trainer import assert_positions as assert_positions
    from posenc.integrations.huggingface.trainer import loss_by_position as loss_by_position
    from posenc.integrations.huggingface.trainer import positions_callback as positions_callback

HOMES = {
    "convert_pairing": "convert",
    **dict.fromkeys(("Measured", "differences", "measure"), "measuring"),
    "check": "model_laws",
    "patched": "patch",
    **dict.fromkeys(("assert_packed", "assert_positions", "loss_by_position", "positions_callback"), "trainer"),
}
"""The modules of the names that are imported on first use."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise no_attribute(__name__, name, HOMES)
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
