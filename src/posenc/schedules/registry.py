"""The only place that maps names, and the factors of methods, to schedules; and their round trip through JSON."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any

from posenc.errors import InvalidArgument, UnknownName
from posenc.schedules.default import Default
from posenc.schedules.dynamic import DynamicNTK
from posenc.schedules.linear import Linear
from posenc.schedules.llama3 import Llama3
from posenc.schedules.longrope import LongRoPE, PerPair
from posenc.schedules.ntk import NTK
from posenc.schedules.proportional import Proportional
from posenc.schedules.pruned import Pruned
from posenc.schedules.schedule import LengthSchedule, Schedule
from posenc.schedules.yarn import YaRN

SCHEDULES: dict[str, type[Schedule] | type[LengthSchedule]] = {
    "default": Default,
    "linear": Linear,
    "ntk": NTK,
    "dynamic": DynamicNTK,
    "yarn": YaRN,
    "longrope": LongRoPE,
    "per-pair": PerPair,
    "llama3": Llama3,
    "proportional": Proportional,
    "pruned": Pruned,
}


METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "none": ("default", {}),
    "linear": ("linear", {}),
    "ntk": ("ntk", {}),
    "ntk-fixed": ("ntk", {"form": "fixed"}),
    "dynamic": ("dynamic", {}),
    "yarn": ("yarn", {}),
    "yarn-paper": ("yarn", {"ramp": "rotations"}),
    "llama3": ("llama3", {}),
    "proportional": ("proportional", {"fraction": 0.25, "factor": 1.0}),
}
"""The schedule of every method that needs only a factor and a trained length, and what the method sets in it."""


def method(
    name: str, factor: float, original_length: int, *, beta_fast: float | None = None
) -> Schedule | LengthSchedule:
    """The schedule of a method of extension, for ``factor`` times the trained length.

    Args:
        name: of ``METHODS``, or ``"default"`` for ``"none"``. LongRoPE is none of them: its lists of factors are
            found by a search.
        factor: s, the longer length over the trained one. Dynamic NTK gets the same one, as Hugging Face's configs
            have it: at s times the trained length it is then NTK at s² − s + 1.
        original_length: L, the trained length, where the method depends on it.
        beta_fast: of YaRN, where it is not the usual 32.
    """
    name = "none" if name == "default" else name
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    schedule, own = METHODS[name]
    known = {"factor": factor, "original_length": original_length, "beta_fast": beta_fast}
    taken = {f.name for f in fields(SCHEDULES[schedule])} - own.keys()  # type: ignore[arg-type]
    return make(schedule, **own, **{key: known[key] for key in taken & known.keys() if known[key] is not None})


def to_dict(schedule: Schedule | LengthSchedule) -> dict[str, Any]:
    """The schedule as JSON values: its name under ``"schedule"``, then every field."""
    names = [name for name, kind in SCHEDULES.items() if type(schedule) is kind]
    if not names or not is_dataclass(schedule):
        raise UnknownName("schedule", type(schedule).__name__, SCHEDULES)
    values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(schedule).items()}
    return {"schedule": names[0], **values}


def make(name: str, *given: Any, **settings: Any) -> Schedule | LengthSchedule:
    """The schedule of this name: ``make("yarn", 4, 4096)``, fields in their order or by name.

    Raises:
        UnknownName: no schedule, or no field, of that name.
        InvalidArgument: too many fields, one twice, one missing, or a value out of range.
    """
    if name not in SCHEDULES:
        raise UnknownName("schedule", name, SCHEDULES)
    known = [f.name for f in fields(SCHEDULES[name])]  # type: ignore[arg-type]
    if len(given) > len(known):
        raise InvalidArgument(f"schedule {name!r} has {len(known)} fields ({', '.join(known)}); got {len(given)}")
    twice = set(known[: len(given)]) & set(settings)
    if twice:
        raise InvalidArgument(f"schedule {name!r} was given {', '.join(sorted(twice))} twice; leave one out")
    return from_dict({"schedule": name, **dict(zip(known, given, strict=False)), **settings})


def from_dict(values: Mapping[str, Any]) -> Schedule | LengthSchedule:
    """The schedule that ``to_dict`` wrote; its fields are validated, unknown ones refused.

    Raises:
        UnknownName: no schedule, or no field, of that name; the message has the nearest.
        InvalidArgument: the name or a field without a default is missing, or a value is out of range.
    """
    if "schedule" not in values:
        raise InvalidArgument(f"no 'schedule' among {sorted(values)}; add one of: {', '.join(SCHEDULES)}")
    name = values["schedule"]
    if name not in SCHEDULES:
        raise UnknownName("schedule", name, SCHEDULES)
    kind = SCHEDULES[name]
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items() if key != "schedule"}
    for key in given:
        if key not in known:
            raise UnknownName(f"field of schedule {name!r}", key, known)
    missing = [key for key, f in known.items() if key not in given and f.default is MISSING]
    if missing:
        raise InvalidArgument(f"schedule {name!r} needs {', '.join(missing)}; its fields are {', '.join(known)}")
    return kind(**given)
