"""Models at ten lengths, compiled or exported once, alone in an interpreter: ``lengths.py LAYERS WAY CASE …``.

torch.compile cannot trace the run-time checks that conftest.py wraps around the library. Prints one JSON object:
for every case what went wrong, or null. Lengths 0 and 1 are left out: torch makes a graph of their own for them.
"""

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._dynamo import lookup_backend
from torch.fx import GraphModule

import posenc
from posenc.laws.law import near
from posenc.positions import arange
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Cache, Transformer

LENGTHS = [9, 2, 3, 16, 31, 64, 127, 130, 257, 300]
"""Below, at and past every size of block that attention works in."""

Inputs = tuple[Tensor, ...]


def tokens(*shape: int) -> Tensor:
    """Tokens, the same every time."""
    return torch.randint(17, shape, generator=torch.Generator().manual_seed(3))


class Reader(nn.Module):
    """A transformer around the encoding; subclasses say what it is given besides tokens."""

    def __init__(self, name: str, layers: int) -> None:
        super().__init__()
        encoding = posenc.encoding(name, width=32, heads=4, head_dim=8, num_positions=512)
        config = Model(width=32, kv_heads=2, layers=layers)
        self.model = Transformer(config, encoding, 17).initialise(0).double()

    def forward(self, row: Tensor, positions: Tensor) -> Tensor:
        """One sequence a row, causal, and nothing hidden."""
        return self.model(row, positions)

    def inputs(self, length: int) -> Inputs:
        return tokens(2, length), arange(length, offset=3)


class Padded(Reader):
    """Rows of two lengths, padded on the left; the shorter is half as long."""

    def forward(self, row: Tensor, mask: Tensor) -> Tensor:
        return self.model(row, posenc.positions.left_padded(mask), mask=posenc.Mask(causal=True, key_mask=mask))

    def inputs(self, length: int) -> Inputs:
        starts = torch.tensor([[0], [length // 2]])
        return tokens(2, length), torch.arange(length) >= starts


class Packed(Reader):
    """Two documents end to end."""

    def forward(self, row: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        return self.model(row, positions, mask=posenc.Mask(causal=True, q_segments=segments))

    def inputs(self, length: int) -> Inputs:
        return tokens(2, length), *posenc.positions.packed([length // 2, length - length // 2])


class Cached(Reader):
    """The sequence follows a few tokens, whose keys and values are in a cache."""

    def forward(self, first: Tensor, before: Tensor, row: Tensor, positions: Tensor) -> Tensor:
        cache = Cache()
        self.model(first, before, cache=cache)
        return self.model(row, positions, cache=cache)

    def inputs(self, length: int) -> Inputs:
        return tokens(2, 5), arange(5), tokens(2, length), arange(length, offset=5)


class Decoding(Cached):
    """One token follows the sequence, which is in a cache."""

    def inputs(self, length: int) -> Inputs:
        return tokens(2, length), arange(length), tokens(2, 1), arange(1, offset=length)


@dataclass(frozen=True)
class Case:
    """A reader and an encoding; ``growing`` says which axis of each input is the length, None where none is."""

    reader: type[Reader]
    encoding: str
    growing: tuple[int | None, ...]


CASES = {
    "nope": Case(Reader, "nope", (1, 0)),
    "sinusoidal": Case(Reader, "sinusoidal", (1, 0)),
    "learned": Case(Reader, "learned", (1, 0)),
    "rotary": Case(Reader, "rotary", (1, 0)),
    "rotary decoding": Case(Decoding, "rotary", (1, 0, None, None)),
    "rotary cached": Case(Cached, "rotary", (None, None, 1, 0)),
    "rotary padded": Case(Padded, "rotary", (1, 1)),
    "rotary packed": Case(Packed, "rotary", (1, 0, 0)),
    "alibi": Case(Reader, "alibi", (1, 0)),
    "alibi padded": Case(Padded, "alibi", (1, 1)),
    "kerple": Case(Reader, "kerple", (1, 0)),
}

TELLING = [("exported", "rotary decoding")]
"""Ways and cases that meet most steps of the others: a rotation without and with a cache."""


def compiled(case: Case, layers: int, marked: bool, backend: str) -> None:
    """Without a break, forward and backward, the graph gives at every length what eager gives.

    One graph serves all where the length is marked as growing; else the first length has its own.
    """
    reader = case.reader(case.encoding, layers)
    graphs = []

    def counting(graph: GraphModule, example: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return lookup_backend(backend)(graph, example)

    fast = torch.compile(reader, fullgraph=True, backend=counting)
    for length in LENGTHS:
        given, results = reader.inputs(length), []
        for tensor, axis in zip(given, case.growing, strict=True):
            if marked and axis is not None:
                torch._dynamo.mark_dynamic(tensor, axis)
        for call in (reader, fast):
            reader.zero_grad()
            y = call(*given)
            y.square().mean().backward()
            results.append([y, *(p.grad for p in reader.parameters() if p.grad is not None)])
        for got, want in zip(*results, strict=True):
            near(got, want)
        assert len(graphs) <= (1 if marked else 2), f"{len(graphs)} graphs by length {length}"


def exported(case: Case, layers: int) -> None:
    """One exported graph gives at every length what eager gives."""
    reader = case.reader(case.encoding, layers)
    length = torch.export.Dim("length", min=2, max=4096)
    shapes = tuple({} if axis is None else {axis: length} for axis in case.growing)
    graph = torch.export.export(reader, reader.inputs(LENGTHS[0]), dynamic_shapes=shapes).module()
    for n in LENGTHS:
        near(graph(*reader.inputs(n)), reader(*reader.inputs(n)))


WAYS: dict[str, Callable[[Case, int], None]] = {
    "compiled": lambda case, layers: compiled(case, layers, marked=True, backend="aot_eager"),
    "compiled as the lengths come": lambda case, layers: compiled(case, layers, marked=False, backend="eager"),
    "exported": exported,
}


def wrong(way: str, case: Case, layers: int) -> str | None:
    torch._dynamo.reset()
    try:
        WAYS[way](case, layers)
    except Exception:
        return traceback.format_exc(limit=-3)
    return None


if __name__ == "__main__":
    torch.set_num_threads(1)
    layers, *words = sys.argv[1:]
    asked = zip(words[::2], words[1::2], strict=True)
    print(json.dumps({f"{name}, {way}": wrong(way, CASES[name], int(layers)) for way, name in asked}))
