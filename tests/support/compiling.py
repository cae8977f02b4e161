"""The laws of compiling, which test_compile.py runs in a separate interpreter: ``python compiling.py WHAT``.

torch.compile cannot trace the run-time checks that conftest.py adds to the library. The script prints one line per
case that breaks a law. Its exit status is 1 if any case breaks a law.
"""

import math
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

import posenc
from posenc import ALiBi, FoX, Mask, NoPE, Placed, Rotary, attention, scores
from posenc.attend.operator import COMPILES_OBJECTS
from posenc.encodings.resize import gathered
from posenc.kernels import native
from posenc.laws import Broken
from posenc.laws.check import verdict
from posenc.laws.effects import Whole
from posenc.laws.law import near
from posenc.laws.subject import Subject, each_layer
from posenc.laws.tracing import SINGLE, compiles_to_one_graph, given
from posenc.positions import arange, grid, packed_rows
from support import mutants
from support.cases import CASES, Case
from support.contracts import LAWS
from support.plumbing.tracing import Attends


def results_and_gradients(
    call: Callable[..., Any], x_to_v: tuple[torch.Tensor, ...], *rest: Any, parameters: Sequence[torch.Tensor] = ()
) -> list[torch.Tensor]:
    """Return the results of a call, and the gradients of x, q, k, v and the parameters."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in x_to_v]
    outputs = call(*leaves, *rest)
    loss = sum(y.square().sum() for y in outputs)
    return [
        *outputs,
        *torch.autograd.grad(loss, [*leaves, *parameters], allow_unused=True, materialize_grads=True),
    ]


def compiles_with_inductor(case: Case) -> None:
    """One graph, forward and backward, gives the results of eager mode; new positions compile no new graph."""
    whole = Whole(case, case.build())
    compiled = torch.compile(whole, fullgraph=True, backend="inductor", dynamic=False)
    for offset in (0, 40):
        x, q, k, v, *rest = given(case, 9, offset)
        wants, found = (results_and_gradients(call, (x, q, k, v), *rest) for call in (whole, compiled))
        for got, want in zip(found, wants, strict=True):
            near(got, want, SINGLE * (1 + want.abs().max()))


def refuses_far_positions_when_compiled(backend: str) -> None:
    """A compiled graph does not read positions, but fails for a position without a row in the table."""
    case = next(case for case in CASES if case.name == "learned")
    compiled = torch.compile(Whole(case, case.build()), fullgraph=True, backend=backend)
    with pytest.raises((RuntimeError, IndexError)):
        compiled(*given(case, 9, 60))  # position 68 of 64


def alibi_over_blocks(backend: str) -> None:
    """ALiBi compiled as a whole equals eager ALiBi, which works in three blocks of rows.

    As a channel, the bias is one of the D + 1 terms of a product. If torch adds it first, it rounds D sums of this
    size, and a result changes by at most twice that error times the largest value.
    """
    length = 700
    case = Case("alibi-long", lambda: ALiBi(4))
    whole = Whole(case, case.build())
    arguments = given(case, length)
    values = arguments[3]
    sums = values.shape[-1] * 2.0**-24 * length * whole.encoding.slopes.max()
    compiled = torch.compile(whole, fullgraph=True, backend=backend)
    near(compiled(*arguments)[1], whole(*arguments)[1], SINGLE + 2 * sums.item() * values.abs().max().item())


class Calls(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def pictures_of_all_sizes_are_one_exported_graph() -> None:
    """An exported graph resizes no table, and works for pictures of sizes that the export did not see."""

    def pictures(*shapes: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
        at, segments = packed_rows([grid(*shape) for shape in shapes])
        return at, torch.tensor(shapes).T[:, segments]

    table, T = torch.randn(4, 4, 8), torch.export.Dim("T", min=2, max=4096)
    model = Calls(lambda at, sizes: gathered(table, at, sizes, "vit"))
    exported = torch.export.export(model, pictures((3, 2), (2, 5)), dynamic_shapes=(({1: T}, {1: T}),))
    other = pictures((6, 7), (1, 3), (9, 2))
    near(exported.module()(*other), model(*other))
    assert not any("upsample" in str(node.target) for node in exported.graph.nodes)


def a_causal_bias_is_never_dense() -> None:
    """No tensor of an exported graph has an entry per query and key. Positions that decrease, or span more than the
    bias's channels can represent, work in a compiled graph; an exported graph raises an error that states a fix."""
    length, alibi = 24, ALiBi(4)

    attend = Calls(lambda q, k, v, at: attention(q, k, v, alibi.at(at), causal=True))
    at = arange(length, offset=10**4)
    q, k, v = torch.randn(3, 2, 4, length, 16)
    exported = torch.export.export(attend, (q, k, v, at))
    values = [node.meta.get("val") for node in exported.graph.nodes]
    squares = [x.shape for x in values if isinstance(x, torch.Tensor) and list(x.shape).count(length) > 1]
    assert not squares, squares
    near(exported.module()(q, k, v, at), scores(q, k, alibi.at(at), causal=True).softmax(-1) @ v, SINGLE)
    fast = torch.compile(attend, backend="aot_eager", fullgraph=True)
    for other in (at.flip(0), at * 5000):
        if COMPILES_OBJECTS:
            near(fast(q, k, v, other), scores(q, k, alibi.at(other), causal=True).softmax(-1) @ v, SINGLE)
        with pytest.raises(RuntimeError, match=r"positions decrease.*pass backend='blocks'"):
            exported.module()(q, k, v, other)


def a_scale_may_be_a_symbol() -> None:
    """The scale may be a symbol, as a module's number is in a graph that is compiled for all sizes."""
    placed, q = NoPE().at(torch.arange(5)), torch.randn(1, 2, 5, 4)

    def attend(q: torch.Tensor, scale: float) -> torch.Tensor:
        return attention(q, q, q, placed, causal=True, scale=scale)

    compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend="eager")
    for scale in (0.3, 0.7):
        torch.testing.assert_close(compiled(q, scale), attend(q, scale))


def an_exported_mask_is_one_boolean() -> None:
    """Without a bias, all heads share the square tensors of a graph, and those with batch rows are boolean."""
    q, k, v = torch.randn(3, 2, 8, 48, 4)
    left = torch.arange(48)[None] >= torch.tensor([[3], [0]])
    for mask in (Mask(causal=True, window=5), Mask(causal=True, key_mask=left)):
        layer = Calls(partial(attention, placed=NoPE().at(arange(48)), mask=mask))
        exported = torch.export.export(layer, (q, k, v))
        near(exported.module()(q, k, v), layer(q, k, v), SINGLE)
        values = [node.meta.get("val") for node in exported.graph.nodes]
        squares = [x for x in values if isinstance(x, torch.Tensor) and x.shape[-2:] == (48, 48)]
        assert squares, exported.graph
        assert all(x.shape[:-2] in ((), (1,), (1, 1), (2, 1)) for x in squares), [x.shape for x in squares]
        assert all(x.dtype == torch.bool for x in squares if x.shape[:-2] == (2, 1)), squares


def nothing_is_square(case: Case) -> None:
    """With any mask, neither the forward nor the backward graph has a tensor with an entry per query and key.
    Results and gradients, including gradients of parameters, equal those of eager mode."""
    length, encoding = case.longest(23), case.build()
    x, q, k, v, positions, _ = given(case, length)
    at = torch.arange(length)
    dense = torch.rand(2, 1, length, length, generator=torch.Generator().manual_seed(0)) > 0.3
    masks = (
        Mask(causal=True),
        Mask(causal=True, window=4, q_segments=at // 7),
        Mask(causal=True, key_mask=at >= torch.tensor([[3], [0]])),
        Mask(causal=encoding.causal, dense=dense),
    )
    squares: list[tuple[str, torch.Size]] = []

    def watching(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
        for node in graph.graph.nodes:
            values = node.meta.get("val")
            for value in values if isinstance(values, list | tuple) else [values]:
                square = isinstance(value, torch.Tensor) and list(value.shape).count(length) > 1
                squares.extend([(str(node.target), value.shape)] if square and node.op != "placeholder" else [])
        return graph

    def attend(x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        outputs = []
        for _, awaiting in each_layer(encoding.at(positions), case.period):
            here = awaiting.with_content(x)[0]
            q_rotated, k_rotated = here.rotate(q, k)
            outputs += [attention(q_rotated, k_rotated, v, here, mask) for mask in masks]
        return outputs

    torch._dynamo.reset_code(attend.__code__)  # all cases share this code
    backend = aot_autograd(fw_compiler=watching, bw_compiler=watching)
    parameters = [p for p in encoding.parameters() if p.requires_grad]
    wants, found = (
        results_and_gradients(call, (x, q, k, v), parameters=parameters)
        for call in (attend, torch.compile(attend, backend=backend, fullgraph=True))
    )
    # Every score under every mask depends on a parameter, and their rounding errors add up like a random walk.
    walk = 4 * 2.0**-24 * math.sqrt(len(masks) * q.shape[0] * q.shape[1] * length**2)
    for i, (got, want) in enumerate(zip(found, wants, strict=True)):
        of_parameter = i >= len(wants) - len(parameters)
        near(got, want, (walk if of_parameter else SINGLE) * (1 + want.abs().max()))
    assert not squares, squares


def an_exported_graph_has_no_longest_length(text: str, *, step: bool = False, chunk: int | None = None) -> None:
    """A graph that is exported once works for sequences of any length, or for one token after a cache of any
    length.

    Earlier, a choice by length bounded exported lengths at 1023, or at 127 for a bias with trained parameters, and
    a chunk could not be exported for sequences that may be shorter.
    """

    class Attend(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoding = posenc.encoding(text, heads=4, head_dim=8)

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            placed = self.encoding.at(at[-1:] if step else at, at)
            return attention(placed.rotate(q, None)[0], k, v, placed, Mask(causal=True, chunk=chunk))

    given = [
        (torch.randn(1, 4, 1 if step else n, 8), *torch.randn(2, 1, 2, n, 8), arange(n)) for n in (9, 2, 130, 300)
    ]
    attend, length = Attend(), torch.export.Dim("length", min=2, max=4096)
    shapes = ({} if step else {2: length}, {2: length}, {2: length}, {0: length})
    exported = torch.export.export(attend, given[0], dynamic_shapes=shapes).module()
    for inputs in given:
        near(exported(*inputs), attend(*inputs), SINGLE)


def there_may_be_as_many_rows_as_heads() -> None:
    """A graph works even if two sizes are equal at first, for which the compiler may use a single symbol."""
    mask = Mask(causal=True, window=8, key_mask=torch.arange(17).expand(3, 17) % 4 != 1)
    layer, q = Calls(partial(attention, placed=ALiBi(3).at(arange(17)), mask=mask)), torch.randn(3, 3, 17, 8)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, q.clone(), q.clone()), layer(q, q, q))


def mutants_are_rejected() -> None:
    """Each law of tracing rejects the encodings that break it."""
    for mutant in mutants.TRACED:
        with pytest.raises(Broken):
            mutant.law(mutant.case)


def the_native_kernel_gives_way_to_compilers() -> None:
    """If the native kernel was built, compiled and exported graphs of any length have the formula instead."""
    if native.lacking():
        return
    rotary = Rotary(16, pairing="half", backend="native")
    turn = Calls(lambda q, k, at: rotary.at(at).rotate(q, k))
    compiled = torch.compile(turn, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 6, 9):
        q, k = (torch.randn(1, 2, length, 16, requires_grad=True) for _ in range(2))
        both = [call(q, k, arange(length)) for call in (compiled, turn)]
        grads = [torch.autograd.grad(sum(y.sin().sum() for y in turned), (q, k)) for turned in both]
        torch.testing.assert_close(both[0], both[1], rtol=0, atol=0)
        torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=2**-20)
    exported = torch.export.export(turn, (q, k, arange(9))).module()
    torch.testing.assert_close(exported(q, k, arange(9)), turn(q, k, arange(9)), rtol=0, atol=0)


MORE = ("rotary", "alibi", "learned", "t5", "fox", "query-scale", "stack(rotary, fox(bias=1))")
MADE = ("cope", "stack(rotary, fox(bias=1))", "rerope(rotary, window=4)")
"""A bias that reads scores and has a gradient, and a rotation with gates that read tokens."""

Laws = dict[str, Callable[[], None]]


COPIED = re.compile(r"shaw|inkling|transformer-xl|deberta|fox|decomposed|self-extend|dca|rerope|string|layers with")
COMPILED = [case for case in CASES if COMPILES_OBJECTS or not COPIED.search(case.name)]
"""The cases that the installed torch can compile; torch 2.8 cannot copy objects (docs/versions.md)."""


def called(names: tuple[str, ...], rest: bool = False) -> list[Case]:
    """Return the cases with these names, or all other cases if ``rest`` is True."""
    return [case for case in COMPILED if (case.name in names) is not rest]


def squares(cases: list[Case]) -> Laws:
    """Return the laws about square tensors, except for older versions of torch, which make every mask dense."""
    return {f"{case}: squares": partial(nothing_is_square, case) for case in cases if COMPILES_OBJECTS}


def lengths_of_documents_are_no_guard() -> None:
    """A single graph and a single exported program work for documents of any lengths and names, and if interleaved.

    The names of interleaved documents agree in their lower 32 bits.
    """
    q, k, v, x = (torch.randn(1, *shape, generator=torch.Generator().manual_seed(0)) for shape in SHAPES)
    packed = [torch.arange(2).repeat_interleave(torch.tensor((n, 16 - n))) for n in (4, 5, 11)]
    masks = [Mask(causal=True, q_segments=segments) for segments in (*packed, 9 - (torch.arange(16) % 2 << 32))]
    assert masks[0].document_lengths != masks[1].document_lengths
    assert masks[3].document_lengths is None
    for encoding in (ALiBi(4), FoX(32, 4).requires_grad_(False)):
        here = encoding.at(arange(16)).with_content(x)[0]
        q_rotated, k_rotated = here.rotate(q, k)
        wants = [attention(q_rotated, k_rotated, v, here, mask) for mask in masks]
        for only_lengths, given_masks in ((True, masks[:3]), (False, masks)):
            torch._dynamo.reset()
            graphs: list[object] = []
            compiled = torch.compile(attention, backend=lambda m, _, g=graphs: g.append(m) or m, fullgraph=True)
            for mask, want in zip(given_masks, wants, strict=False):
                near(compiled(q_rotated, k_rotated, v, here, mask), want, SINGLE)
            assert len(graphs) == 1 or not only_lengths, len(graphs)
        exported = torch.export.export(Attends(), (q, k, v, here, masks[0])).module()
        for mask, want in zip(masks, wants, strict=True):
            near(exported(q, k, v, here, mask), want, SINGLE)


def a_check_leaves_what_its_caller_compiled() -> None:
    """The law that resets the compiler does not reset what its caller compiled."""
    counted: list[object] = []
    compiled = torch.compile(lambda x: x + 1, backend=lambda module, _: counted.append(1) or module)
    compiled(torch.ones(3))
    assert verdict(compiles_to_one_graph, Subject.of("nope")).outcome == "kept"
    compiled(torch.ones(3))
    assert len(counted) == 1


def transforms_of_functions_are_traced() -> None:
    """Inside ``torch.func``, plain operators are traced, because posenc's own operator has no transforms."""
    here, q = ALiBi(4).at(arange(12)), torch.randn(3, 2, 4, 12, 8)
    mask = Mask(causal=True, window=5)

    def attend(q: torch.Tensor) -> torch.Tensor:
        return attention(q, q, q, here, mask)

    def mapped(q: torch.Tensor) -> torch.Tensor:
        return torch.vmap(attend)(q)

    near(torch.compile(mapped, backend="eager", fullgraph=True)(q), mapped(q), SINGLE)


def softcap_and_sinks_are_in_the_graph() -> None:
    """Attention with a bias, softcap and sinks compiles to one graph, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 4, 40, 8, generator=generator, dtype=torch.float64)
    leaves = [x.clone().requires_grad_() for x in (q, k[:, :2], v[:, :2], torch.linspace(-1, 2, 4).double())]

    def attend(*given: torch.Tensor, here: Placed) -> torch.Tensor:
        q, k, v, sinks = given
        return attention(q, k, v, here, causal=True, softcap=1.5, sinks=sinks)

    here = ALiBi(4).double().at(arange(40), dtype=torch.float64)
    ways = attend, torch.compile(attend, backend="aot_eager", fullgraph=True)
    want, got = (way(*leaves, here=here) for way in ways)
    grads = [torch.autograd.grad(y.sin().sum(), leaves) for y in (want, got)]
    torch.testing.assert_close((got, *grads[1]), (want, *grads[0]), rtol=0, atol=1e-11)


SHAPES = ((4, 16, 8), (4, 16, 8), (4, 16, 8), (16, 32))

LAWS_OF: dict[str, Callable[[], Laws]] = {
    "some": lambda: {
        **squares(called(MADE)),
        "far positions": lambda: refuses_far_positions_when_compiled("eager"),
        "a scale": a_scale_may_be_a_symbol,
        "a causal bias": a_causal_bias_is_never_dense,
        "a mask": an_exported_mask_is_one_boolean,
        "lengths of documents": lengths_of_documents_are_no_guard,
        "softcap and sinks": softcap_and_sinks_are_in_the_graph,
        "the native kernel": the_native_kernel_gives_way_to_compilers,
        "a step": lambda: an_exported_graph_has_no_longest_length("rotary", step=True),
        "a bias": lambda: an_exported_graph_has_no_longest_length("alibi"),
        "a bias that learns": lambda: an_exported_graph_has_no_longest_length("kerple"),
        "chunks": lambda: an_exported_graph_has_no_longest_length("rotary", chunk=5),
    },
    "rest": lambda: {
        **{f"{case}: {law}": partial(law, case) for case in COMPILED for law in LAWS if law.traces},
        "rows and heads": there_may_be_as_many_rows_as_heads,
        "a check": a_check_leaves_what_its_caller_compiled,
        "transforms": transforms_of_functions_are_traced,
        "far positions": lambda: refuses_far_positions_when_compiled("inductor"),
        "pictures": pictures_of_all_sizes_are_one_exported_graph,
        "mutants": mutants_are_rejected,
    },
    "to the end": lambda: {
        **{f"{case}: inductor": partial(compiles_with_inductor, case) for case in called(MORE)},
        "alibi over blocks": lambda: alibi_over_blocks("eager"),
        "alibi over blocks, inductor": lambda: alibi_over_blocks("inductor"),
    },
    "squares": lambda: squares(called(MADE, rest=True)),
}
"""The laws by group. Every run of the tests includes ``some``. ``rest`` compiles and exports every encoding, ``to
the end`` uses inductor, and ``squares`` checks the tensors in the graphs of all encodings that ``some`` does not
check."""


def main(what: str) -> int:
    broken = 0
    for name, law in LAWS_OF[what]().items():
        torch._dynamo.reset()
        try:
            law()
        except Exception:
            broken += 1
            print(f"{name}: {traceback.format_exc()}")
    return 1 if broken else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1]))
