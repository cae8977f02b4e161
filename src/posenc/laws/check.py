"""``posenc.check`` tests every law on an encoding and reports which laws the encoding keeps."""

from dataclasses import dataclass
from typing import Any

import torch

from posenc.encodings.encoding import Encoding
from posenc.errors import PosencError, first_line
from posenc.laws import computes, feeding, independence, paths, sharding, survival, tracing
from posenc.laws.law import Law, NotAsked
from posenc.laws.subject import ROWS, Subject

LAWS: tuple[Law, ...] = (
    computes.acts_where_it_declares,
    computes.sees_only_the_offset,
    computes.rotation_keeps_norms,
    computes.rotates_queries_and_keys_apart,
    computes.leaves_inputs_and_values_alone,
    computes.tells_orders_apart,
    computes.refuses_what_is_no_position,
    feeding.whole_is_pieces,
    feeding.together_is_apart,
    sharding.slots_are_a_cache,
    sharding.sharded_is_whole,
    sharding.ring_is_whole,
    sharding.heads_are_whole,
    paths.paths_are_scores,
    paths.gradients_are_those_of_scores,
    independence.low_precision_rounds_once,
    independence.gradients_are_exact,
    survival.survives_casts,
    survival.survives_copies,
    survival.survives_meta,
    survival.survives_autocast,
    tracing.compiles_to_one_graph,
    tracing.exports_to_one_graph,
)
"""All laws, in the order in which reports list them."""

SIGNS = {"kept": "kept  ", "broken": "BROKEN", "error": "ERROR ", "not owed": "  –   ", "not asked": "  ?   "}


@dataclass(frozen=True)
class Verdict:
    """The outcome of testing one law.

    Args:
        law: the name of the law.
        says: what the law requires.
        outcome: ``"kept"``, ``"broken"``, ``"error"`` (the encoding raised an error), ``"not owed"`` (the law
            does not apply) or ``"not asked"`` (the law was not tested).
        detail: the counterexample, the error, or what was not tested, and why.
        remedy: advice on how to keep the law.
    """

    law: str
    says: str
    outcome: str
    detail: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{SIGNS[self.outcome]}  {self.law}"
        if self.outcome not in ("broken", "error"):
            return ": ".join(filter(None, (line, self.detail)))
        return "\n          ".join(
            filter(None, (line, self.says, self.detail, f"remedy: {self.remedy}" * bool(self.remedy)))
        )


@dataclass(frozen=True)
class Report:
    """A printable report with the verdicts on all laws."""

    name: str
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether the encoding keeps all tested laws."""
        return not self.broken

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The verdicts on laws that are broken or whose test raised an error."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome in ("broken", "error"))

    def __str__(self) -> str:
        count = {outcome: sum(v.outcome == outcome for v in self.verdicts) for outcome in SIGNS}
        total = f"{count['kept']} laws kept, {count['broken']} broken, {count['error']} ended in an error"
        others = f"{count['not owed']} do not apply, {count['not asked']} were not tested"
        return "\n".join([f"{self.name}: {total}, {others}", *map(str, self.verdicts)])


def check(
    encoding: Encoding | type[Encoding] | str,
    *,
    width: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    num_positions: int = ROWS,
    layers: int | None = None,
    compiled: bool = False,
) -> Report:
    """Test every law on an encoding, as in ``print(posenc.check(MyEncoding))``. The test takes two or three
    seconds.

    Args:
        encoding: an instance, a class whose arguments may include sizes of the model (``width``, ``heads``,
            ``head_dim``, ``num_positions``, ``layers``), or a string such as ``"my_module:Mine(width=3)"``.
        width, heads, kv_heads, head_dim, num_positions, layers: the sizes of the model. The default of a size is
            the encoding's own value if it has one, and otherwise a small value.
        compiled: whether to also test the laws about torch.compile and torch.export, which takes about ten more
            seconds. Functions that you compiled before stay compiled.
    """
    subject = Subject.of(
        encoding,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        num_positions=num_positions,
        layers=layers,
    )
    with torch.device("cpu"):  # the device on which laws draw numbers
        subject.build()  # an encoding that cannot be built raises its own error
        return Report(subject.name, tuple(verdict(law, subject, compiled) for law in LAWS))


def verdict(law: Law, subject: Any, compiled: bool = True) -> Verdict:
    """Test a law on a subject. Laws that run a compiler are tested only if ``compiled`` is True."""
    try:
        later = NotAsked("the test takes seconds; pass compiled=True")
        if why_not := law.why_not(subject) if compiled or not law.traces else later:
            return Verdict(
                law.name, law.says, "not asked" if isinstance(why_not, NotAsked) else "not owed", why_not
            )
        return Verdict(law.name, law.says, "kept", law(subject) or "")
    except AssertionError as broken:
        return Verdict(law.name, law.says, "broken", str(broken), law.remedy)
    except Exception as error:  # errors of the encoding's own code become part of the report
        detail = f"{type(error).__name__}: {first_line(error)}"
        return Verdict(law.name, law.says, "error", detail, "" if isinstance(error, PosencError) else law.remedy)
