"""posenc: the position layer for transformers. A name loads what it stands for, and torch, when first used."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:  # what editors and type checkers see; a test holds _HOMES to it
    from posenc import errors as errors
    from posenc import layouts as layouts
    from posenc import positions as positions
    from posenc import schedules as schedules
    from posenc.attention import attention as attention
    from posenc.attention import merge as merge
    from posenc.attention import scores as scores
    from posenc.clock import Clock as Clock
    from posenc.encodings.alibi import ALiBi as ALiBi
    from posenc.encodings.bias import Bias as Bias
    from posenc.encodings.bias import OffsetBias as OffsetBias
    from posenc.encodings.catalogue import CATALOGUE as CATALOGUE
    from posenc.encodings.catalogue import encoding as encoding
    from posenc.encodings.channel_rotary import ChannelRotary as ChannelRotary
    from posenc.encodings.compose import Heads as Heads
    from posenc.encodings.compose import Stack as Stack
    from posenc.encodings.cope import CoPE as CoPE
    from posenc.encodings.deberta import DeBERTa as DeBERTa
    from posenc.encodings.decomposed import Decomposed as Decomposed
    from posenc.encodings.encoding import Encoding as Encoding
    from posenc.encodings.fire import FIRE as FIRE
    from posenc.encodings.fope import FoPE as FoPE
    from posenc.encodings.fox import FoX as FoX
    from posenc.encodings.grape import Grape as Grape
    from posenc.encodings.inkling import Inkling as Inkling
    from posenc.encodings.kerple import Kerple as Kerple
    from posenc.encodings.layers import Layers as Layers
    from posenc.encodings.layoutlm import LayoutLM as LayoutLM
    from posenc.encodings.learned import Learned as Learned
    from posenc.encodings.learned_grid import LearnedGrid as LearnedGrid
    from posenc.encodings.learned_rotary import LearnedRotary as LearnedRotary
    from posenc.encodings.nope import NoPE as NoPE
    from posenc.encodings.placed import Placed as Placed
    from posenc.encodings.pope import PoPE as PoPE
    from posenc.encodings.query_scale import QueryScale as QueryScale
    from posenc.encodings.rerotate import rerotate as rerotate
    from posenc.encodings.rotary import Rotary as Rotary
    from posenc.encodings.sandwich import Sandwich as Sandwich
    from posenc.encodings.shaw import Shaw as Shaw
    from posenc.encodings.sinusoidal import Sinusoidal as Sinusoidal
    from posenc.encodings.sinusoidal_grid import SinusoidalGrid as SinusoidalGrid
    from posenc.encodings.some_heads import SomeHeads as SomeHeads
    from posenc.encodings.ssmax import SSMax as SSMax
    from posenc.encodings.t5 import T5 as T5
    from posenc.encodings.transformer_xl import TransformerXL as TransformerXL
    from posenc.encodings.window import Window as Window
    from posenc.encodings.xpos import XPos as XPos
    from posenc.laws.check import check as check
    from posenc.sight import Sight as Sight
else:
    _HOMES = {
        "errors": "posenc.errors",
        "layouts": "posenc.layouts",
        "positions": "posenc.positions",
        "schedules": "posenc.schedules",
        "attention": "posenc.attention",
        "merge": "posenc.attention",
        "scores": "posenc.attention",
        "Clock": "posenc.clock",
        "Sight": "posenc.sight",
        "check": "posenc.laws.check",
        "ALiBi": "posenc.encodings.alibi",
        "Bias": "posenc.encodings.bias",
        "OffsetBias": "posenc.encodings.bias",
        "CATALOGUE": "posenc.encodings.catalogue",
        "encoding": "posenc.encodings.catalogue",
        "ChannelRotary": "posenc.encodings.channel_rotary",
        "Heads": "posenc.encodings.compose",
        "SomeHeads": "posenc.encodings.some_heads",
        "Stack": "posenc.encodings.compose",
        "CoPE": "posenc.encodings.cope",
        "DeBERTa": "posenc.encodings.deberta",
        "Decomposed": "posenc.encodings.decomposed",
        "Encoding": "posenc.encodings.encoding",
        "FoPE": "posenc.encodings.fope",
        "FIRE": "posenc.encodings.fire",
        "FoX": "posenc.encodings.fox",
        "Grape": "posenc.encodings.grape",
        "Inkling": "posenc.encodings.inkling",
        "Kerple": "posenc.encodings.kerple",
        "Layers": "posenc.encodings.layers",
        "LayoutLM": "posenc.encodings.layoutlm",
        "Learned": "posenc.encodings.learned",
        "LearnedGrid": "posenc.encodings.learned_grid",
        "LearnedRotary": "posenc.encodings.learned_rotary",
        "NoPE": "posenc.encodings.nope",
        "Placed": "posenc.encodings.placed",
        "PoPE": "posenc.encodings.pope",
        "QueryScale": "posenc.encodings.query_scale",
        "rerotate": "posenc.encodings.rerotate",
        "Rotary": "posenc.encodings.rotary",
        "Sandwich": "posenc.encodings.sandwich",
        "Shaw": "posenc.encodings.shaw",
        "Sinusoidal": "posenc.encodings.sinusoidal",
        "SinusoidalGrid": "posenc.encodings.sinusoidal_grid",
        "SSMax": "posenc.encodings.ssmax",
        "T5": "posenc.encodings.t5",
        "XPos": "posenc.encodings.xpos",
        "TransformerXL": "posenc.encodings.transformer_xl",
        "Window": "posenc.encodings.window",
    }
    __all__ = list(_HOMES)

    def _stands_for(name, module):
        """What a public name means in its home: the thing of that name there, or else the module itself."""
        return getattr(module, name, module)

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'posenc' has no attribute {name!r}")
        found = globals()[name] = _stands_for(name, import_module(_HOMES[name]))
        return found

    def __dir__():
        return sorted({*globals(), *_HOMES})

    class _Face(ModuleType):
        """The import system writes every submodule onto its package; ``posenc.attention`` stays the function."""

        def __setattr__(self, name, value):
            shown = name in _HOMES and isinstance(value, ModuleType)
            super().__setattr__(name, _stands_for(name, value) if shown else value)

    sys.modules[__name__].__class__ = _Face
