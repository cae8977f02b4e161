"""Builds scalings by name, or by extension method and factor, and converts them to and from JSON."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from posenc.arguments import one_of
from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling.default import Default
from posenc.scaling.dynamic import DynamicNTK
from posenc.scaling.linear import Linear
from posenc.scaling.llama3 import Llama3
from posenc.scaling.longrope import LongRoPE, PerPair
from posenc.scaling.ntk import NTK
from posenc.scaling.proportional import Proportional
from posenc.scaling.scaling import LengthScaling, Scaling
from posenc.scaling.yarn import YaRN

SCALINGS: dict[str, type[Scaling] | type[LengthScaling]] = {
    "default": Default,
    "linear": Linear,
    "ntk": NTK,
    "dynamic": DynamicNTK,
    "yarn": YaRN,
    "longrope": LongRoPE,
    "per-pair": PerPair,
    "llama3": Llama3,
    "proportional": Proportional,
}


METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "none": ("default", {}),
    "linear": ("linear", {}),
    "ntk": ("ntk", {}),
    "ntk-fixed": ("ntk", {"form": "fixed"}),
    "abf": ("ntk", {"form": "abf"}),
    "dynamic": ("dynamic", {}),
    "yarn": ("yarn", {}),
    "yarn-paper": ("yarn", {"ramp": "rotations"}),
    "llama3": ("llama3", {}),
    "proportional": ("proportional", {"fraction": 0.25, "factor": 1.0}),
}
"""The scaling and the settings of each extension method that needs only a factor and a trained length."""


def method(
    name: str, factor: float, original_length: int, *, beta_fast: float | None = None
) -> Scaling | LengthScaling:
    """Return the scaling with which an extension method reaches ``factor`` times the trained length.

    Args:
        name: a name in ``METHODS``, or ``"default"``, which is another name for ``"none"`` (no scaling). LongRoPE
            is not in ``METHODS``, because its lists of factors are found by search.
        factor: s, the longer length divided by the trained length. As in Hugging Face's configs, s is also the
            ``factor`` of dynamic NTK, so at s times the trained length, dynamic NTK equals NTK with factor
            s² − s + 1.
        original_length: L, the trained length, if the method depends on it.
        beta_fast: YaRN's ``beta_fast``, if it is not 32.
    """
    name = "none" if name == "default" else name
    scaling, constants = METHODS[one_of("method", name, METHODS)]
    known = {"factor": factor, "original_length": original_length, "beta_fast": beta_fast}
    taken = {f.name for f in fields(SCALINGS[scaling])} - constants.keys()  # type: ignore[arg-type]
    return make(scaling, **constants, **{key: known[key] for key in taken & known.keys() if known[key] is not None})


def to_dict(scaling: Scaling | LengthScaling) -> dict[str, Any]:
    """Convert a scaling to a JSON-compatible dict of all its fields, with its name under ``"scaling"``."""
    names = [name for name, kind in SCALINGS.items() if type(scaling) is kind]
    if not names or not is_dataclass(scaling):
        raise UnknownName("scaling", type(scaling).__name__, SCALINGS)
    values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(scaling).items()}
    return {"scaling": names[0], **values}


def make(name: str, /, *given: Any, **settings: Any) -> Scaling | LengthScaling:
    """Build a scaling by name, as in ``make("yarn", 4, 4096)``. Fields can be passed in order or by name.

    Raises:
        UnknownName: no scaling or field has this name.
        InvalidArgument: there are too many fields, a field is given twice or is missing, or a value is out of
            range.
    """
    return SCALINGS[one_of("scaling", name, SCALINGS)](*given, **settings)


def from_dict(values: Mapping[str, Any]) -> Scaling | LengthScaling:
    """Build a scaling from the output of ``to_dict``. Fields are checked, and unknown fields raise an error.

    Raises:
        UnknownName: no scaling or field has this name; the message lists the nearest names.
        InvalidArgument: the name or a field without a default is missing, or a value is out of range.
    """
    if "scaling" not in values:
        raise InvalidArgument(
            f"the keys {sorted(values)} do not include 'scaling'; add 'scaling' with one of these names: "
            f"{', '.join(SCALINGS)}"
        )
    settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    return make(settings.pop("scaling"), **settings)
