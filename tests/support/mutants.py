"""All mutants (encodings that are broken on purpose, with one mistake each), and the laws that must reject them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from posenc import Encoding
from posenc.encodings.text import Recipe, parse
from posenc.laws import Law, computes, feeding, independence, paths, sharding, survival, tracing
from support import broken, broken_layers, broken_scores, contracts, plumbing, reference
from support.broken import BrokenALiBi, BrokenRotary, Cached, Retabled, Rotates, ladder, tables_of
from support.broken_scores import Biased, BrokenFoX, TwoAxes
from support.cases import Case


@dataclass(frozen=True)
class Mutant:
    """A broken encoding, and the law that must reject it."""

    name: str
    make: Callable[[], Encoding]
    law: Law
    formula: reference.Reference | None = None
    other: Callable[[], Encoding] | None = None
    recipe: Recipe | None = None

    @property
    def case(self) -> Case:
        return Case(self.name, self.make, recipe=self.recipe, other=self.other, formula=self.formula)

    def __str__(self) -> str:
        return self.name


HALF, SLOPES = reference.Rotation(8, "half"), reference.Slopes(reference.slopes(4))
FORMULA = contracts.follows_its_formula
WHOLE = {
    "rotary": Mutant("rotary", BrokenRotary, FORMULA, HALF, lambda: BrokenRotary(5e5)),
    "alibi": Mutant("alibi", lambda: BrokenALiBi(lambda m, o: -m * o.abs()), FORMULA, SLOPES),
    "fox": Mutant("fox", BrokenFoX, FORMULA),
    "two axes": Mutant("two axes", TwoAxes, FORMULA),
}
"""The correct encodings from which the mutants were made."""

BY_LENGTH = partial(Cached, lambda at, dtype: (at.shape, dtype))
"""Its second call gets the positions of the first call of that length."""
BY_POSITIONS = partial(Cached, lambda at, dtype: (tuple(at.flatten().tolist()), dtype), {})
"""All its instances share one cache, whatever their base."""

MUTANTS = [
    Mutant("the wrong pairing", BrokenRotary, FORMULA, reference.Rotation(8, "interleaved")),
    Mutant("ALiBi's sign turned", lambda: BrokenALiBi(lambda m, o: m * o.abs()), FORMULA, SLOPES),
    Mutant("ALiBi that rewards the future", lambda: BrokenALiBi(lambda m, o: m * o), FORMULA, SLOPES),
    Mutant(
        "ALiBi rounded to bf16",
        lambda: BrokenALiBi(lambda m, o: (-m * o.abs()).bfloat16().float()),
        FORMULA,
        SLOPES,
    ),
    Mutant("effects that it has not", broken_scores.OtherEffects, computes.acts_where_it_declares),
    Mutant("float32 positions", broken.FloatPositions, computes.sees_only_the_offset),
    Mutant("an absolute encoding called relative", broken.CalledRelative, computes.sees_only_the_offset),
    Mutant("axes swapped at the keys", lambda: TwoAxes(swapped=True), computes.sees_only_the_offset),
    Mutant(
        "no rotation at all",
        partial(Retabled, lambda tables, at, dtype: 2 * tables(at, dtype)[:1]),
        computes.rotation_keeps_norms,
    ),
    Mutant(
        "keys alone left as they are",
        partial(Rotates, lambda turn, q, k: (q, k) if q is None else turn(q, k)),
        computes.rotates_queries_and_keys_apart,
    ),
    Mutant(
        "an overwritten input",
        partial(Rotates, lambda turn, q, k: [x.copy_(y) for x, y in zip((q, k), turn(q, k), strict=True)]),
        computes.leaves_inputs_and_values_alone,
    ),
    Mutant("one row for all positions", broken.Forgetful, computes.tells_orders_apart),
    Mutant("a silent clamp past the end", broken.SilentClamp, computes.refuses_what_is_no_position),
    Mutant(
        "off by one after a cache",
        partial(Retabled, lambda tables, at, dtype: tables(at + (at[..., :1] > 0), dtype)),
        feeding.whole_is_pieces,
    ),
    Mutant("ALiBi between rows", broken.RowsInsteadOfPositions, feeding.whole_is_pieces),
    Mutant("a state dropped", lambda: BrokenFoX(drops=True), feeding.whole_is_pieces),
    Mutant("a scale one position late", broken_scores.ScaleLate, feeding.whole_is_pieces),
    Mutant(
        "padding counts as tokens",
        partial(Retabled, lambda tables, at, dtype: tables(at[0].expand(at.shape) if at.dim() == 2 else at, dtype)),
        feeding.together_is_apart,
    ),
    Mutant("packed documents count on", broken.RowNumbers, feeding.together_is_apart),
    Mutant("distances between slots", broken.RowsInsteadOfPositions, sharding.slots_are_a_cache),
    Mutant("distances between a shard's rows", broken.RowsInsteadOfPositions, sharding.sharded_is_whole),
    Mutant("a shard's scale one late", broken_scores.ScaleLate, sharding.sharded_is_whole),
    Mutant("a zig-zag summed by row", lambda: BrokenFoX(broken_scores.SumsByRow), sharding.sharded_is_whole),
    Mutant("a row's number left out untold", lambda: Biased(broken_scores.KeepsQuiet), sharding.ring_is_whole),
    Mutant(
        "heads counted from the rank's first",
        partial(Rotates, lambda turn, q, k: (torch.cat((q[:, :1], turn(q, k)[0][:, 1:]), 1), turn(q, k)[1])),
        sharding.heads_are_whole,
    ),
    Mutant("a line off by one", broken_scores.LineOffByOne, plumbing.scores.shortcuts_are_rows),
    Mutant(
        "channels of half the size",
        lambda: BrokenFoX(broken_scores.WrongChannels),
        plumbing.scores.shortcuts_are_rows,
    ),
    Mutant(
        "channels that are not anchored",
        lambda: Biased(broken_scores.FromTheOrigin),
        plumbing.scores.shortcuts_are_rows,
    ),
    Mutant("a document with others' gates", lambda: BrokenFoX(broken_scores.FirstGates), paths.paths_are_scores),
    Mutant("later keys the first", lambda: Biased(broken_scores.FirstKeys), plumbing.scores.shortcuts_are_rows),
    Mutant("every block the first", lambda: Biased(broken_scores.FirstRows), plumbing.scores.rows_are_scores),
    Mutant("attention along a wrong line", broken_scores.LineOffByOne, paths.paths_are_scores),
    Mutant("a fall steeper than the bias", lambda: Biased(broken_scores.TooSteep), paths.paths_are_scores),
    Mutant("a line that learns twice", broken_layers.SlopesToLearn, paths.gradients_are_those_of_scores),
    Mutant("a table cut off", broken_layers.TableOfAllLayers, plumbing.layers.shared_placings_train),
    Mutant(
        "old slopes for ever", broken_layers.GoesOnWithOldSlopes, plumbing.layers.changed_parameters_are_refused
    ),
    Mutant("a window lost when read", broken_layers.WindowForgotten, plumbing.layers.windows_travel),
    Mutant(
        "a cache keyed without base",
        BY_POSITIONS,
        plumbing.independence.instances_are_independent,
        other=partial(BY_POSITIONS, base=5e5),
    ),
    Mutant("a cache keyed by length", BY_LENGTH, plumbing.independence.instances_are_independent),
    Mutant("tables rounded to the model's type", broken.RoundedTables, independence.low_precision_rounds_once),
    Mutant(
        "keys without gradient",
        partial(Rotates, lambda turn, q, k: turn(q, k.detach())),
        independence.gradients_are_exact,
    ),
    Mutant("frequencies in a float buffer", broken.FloatBuffer, survival.survives_casts),
    Mutant("frequencies in state_dict", broken.PersistentTable, survival.survives_copies),
    Mutant("a lambda in a module", lambda: BrokenALiBi(lambda m, o: -m * o.abs()), survival.survives_copies),
    Mutant("a rotation in a closure", broken.RoundedTables, plumbing.survival.placings_survive_copies),
    Mutant("frequencies lost on meta", broken.FloatBuffer, survival.survives_meta),
    Mutant(
        "buffers that nothing but a draw fills", broken.FilledWithParameters, plumbing.survival.survives_loading
    ),
    Mutant("parameters never filled", broken.NoReset, survival.survives_meta),
    Mutant(
        "angles that autocast rounds",
        partial(
            Retabled, lambda tables, at, dtype: tables_of((at[..., None].float() @ ladder()[None]).float(), dtype)
        ),
        survival.survives_autocast,
    ),
    Mutant("a table from inference_mode", BY_LENGTH, plumbing.survival.survives_inference_mode),
    Mutant(
        "angles of the default type",
        partial(Retabled, lambda tables, at, dtype: tables_of(at[..., None] * ladder(), dtype)),
        plumbing.survival.survives_another_default_dtype,
    ),
    Mutant("a look at positions, faked", broken_scores.LooksAtPositions, plumbing.tracing.survives_fake_tensors),
    Mutant("a look at positions, traced", broken_scores.LooksAtPositions, plumbing.tracing.survives_make_fx),
    Mutant(
        "a look at queries",
        partial(Rotates, lambda turn, q, k: turn(q, k) if float(q.max()) < 1e6 else (q, k)),
        plumbing.tracing.survives_vmap,
    ),
    Mutant(
        "another base than its text's",
        BrokenRotary,
        plumbing.texts.texts_are_encodings,
        recipe=parse("rotary(base=5e5)"),
    ),
]
TRACED = [
    Mutant("lengths told apart", broken_scores.TellsLengthsApart, tracing.compiles_to_one_graph),
    Mutant("a look at positions, compiled", broken_scores.LooksAtPositions, tracing.compiles_to_one_graph),
    Mutant("tables in a closure, exported", broken.RoundedTables, plumbing.tracing.exports_with_a_placing),
    Mutant("lengths told apart in export", broken_scores.TellsLengthsApart, tracing.exports_to_one_graph),
]
"""The mutants for laws that compile, which run in compiling.py."""
