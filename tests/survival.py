"""The laws of survival: what may be done to an encoding without changing what it computes."""

import copy
import math
import pickle

import torch
from torch import Tensor

import posenc
from cases import Case
from posenc import Encoding
from posenc.positions import plain
from probe import doors, inputs, near, same


def survives_casts(case: Case) -> None:
    """Casting the module rounds its parameters and nothing else: no frequency, slope or position."""
    at = plain(9, offset=40)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        want = case.build()
        with torch.no_grad():
            for parameter in want.parameters():
                parameter.copy_(parameter.to(dtype))
        same(doors(case, case.build().to(dtype).float(), at), doors(case, want, at))
        got = doors(case, case.build().to(dtype), at)
        for name, tensor in doors(case, want, at).items():
            assert torch.equal(got[name], tensor), f"{name} after .to({dtype})"


def survives_copies(case: Case) -> None:
    """deepcopy, pickle and state_dict lose nothing; a state dict holds parameters only."""
    encoding, at = case.build(), plain(9, offset=40)
    want = doors(case, encoding, at)
    same(doors(case, copy.deepcopy(encoding), at), want)
    state = encoding.state_dict()
    assert set(state) == {name for name, _ in encoding.named_parameters()}
    fresh = case.make()
    fresh.load_state_dict(state, strict=True)
    same(doors(case, fresh, at), want)
    assert repr(encoding).startswith(type(encoding).__name__)


def survives_pickle(case: Case) -> None:
    """A pickled encoding comes back the same."""
    encoding, at = case.build(), plain(9, offset=40)
    same(doors(case, pickle.loads(pickle.dumps(encoding)), at), doors(case, encoding, at))


def survives_meta(case: Case) -> None:
    """Built on meta, then to_empty and reset_parameters: the same as built at once."""
    with torch.device("meta"):
        encoding = case.make()
    assert all(tensor.is_meta for tensor in (*encoding.parameters(), *encoding.buffers()))
    encoding = encoding.to_empty(device="cpu")
    torch.manual_seed(1)
    encoding.reset_parameters()
    same(doors(case, encoding, plain(9)), doors(case, case.build(), plain(9)))


def survives_autocast(case: Case) -> None:
    """Autocast may run attention in bf16, but no table and no bias: their error would grow with distance."""
    encoding, at = case.build(), plain(9, offset=40)
    want = doors(case, encoding, at)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = doors(case, encoding, at)
    attended = ("y", "far")
    same({n: t for n, t in got.items() if n not in attended}, {n: t for n, t in want.items() if n not in attended})
    _, q, k, v = inputs(case)
    # v, the weights and the result are rounded by u each; q and k move a score by 2u|q||k|/√D.
    u = torch.finfo(torch.bfloat16).eps / 2
    score = (q.norm(dim=-1).max() * k.norm(dim=-1).max() / math.sqrt(case.head_dim)).item()
    near(got["y"], want["y"], u * (3 + 4 * score) * v.abs().max() * (1 + u))
    near(got["far"], want["far"], 3 * u * v.abs().max() * (1 + u))


def survives_inference_mode(case: Case) -> None:
    """Used under inference_mode (or built there, if it has no parameters), it can be trained afterwards."""
    encoding, at = case.build(), plain(9)
    with torch.inference_mode():
        before = doors(case, encoding, at)
        unparametrised = case.make()
    for candidate in (encoding, *([] if list(encoding.parameters()) else [unparametrised])):
        x, q, k, v = (tensor.requires_grad_() for tensor in inputs(case))
        placed = candidate.at(at)
        y = posenc.attention(*placed.rotate(q, k), v, placed, True)
        (y.sum() + placed.embed(x).sum()).backward()
        assert all(bool(t.grad.isfinite().all()) for t in (x, q, k, v) if t.grad is not None)
        assert v.grad is not None
        after = doors(case, candidate, at)
        for name, tensor in after.items():
            # The two may be computed by different engines, which order or fuse two products and a sum.
            near(tensor, before[name], 4 * 2.0**-24 * (1 + before[name].abs().max()))


def survives_export(case: Case) -> None:
    """torch.export takes it, positions being an input."""
    whole = Whole(case.build())
    x, q, k, v = inputs(case)
    exported = torch.export.export(whole, (x, q, k, v, plain(9))).module()
    for got, want in zip(
        exported(x, q, k, v, plain(9, offset=5)), whole(x, q, k, v, plain(9, offset=5)), strict=True
    ):
        near(got, want, 1e-5)


class Whole(torch.nn.Module):
    """All three doors in one forward, to be compiled or exported."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        placed = self.encoding.at(positions)
        return placed.embed(x), posenc.attention(*placed.rotate(q, k), v, placed, True)
