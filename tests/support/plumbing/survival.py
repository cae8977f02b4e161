"""Laws about copies of placed encodings, loading, inference mode, and changed default dtypes and devices."""

import copy
import pickle
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from posenc.attend import attention
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.laws.effects import effects, inputs
from posenc.laws.law import Broken, law, near, owed, same
from posenc.laws.subject import Subject, each_layer
from posenc.laws.survival import late
from support.default_dtype import default_dtype


@law()
def placings_survive_copies(subject: Subject) -> None:
    """A placed encoding gives the same results after use, pickling, deepcopy, or a rebuild from its tensors.

    Keep tensors as attributes of the ``Placed`` and of its bias, and use only objects of classes that can be
    imported; a function that is defined inside ``place`` cannot be copied.
    """
    x, q, k, v = inputs(subject)
    encoding = subject.build()

    def attended(placed: Placed) -> Tensor:
        return attention(*placed.rotate(q, k), v, placed, causal=True)

    ways: dict[str, Callable[[Placed], Placed]] = {
        "unpickled": lambda placed: pickle.loads(pickle.dumps(placed)),
        "a deepcopy": copy.deepcopy,
        "rebuilt by tree_map": lambda placed: tree_map(torch.clone, placed),
    }
    for layer, awaiting in each_layer(encoding.at(late(subject)), subject.period):
        here = awaiting.with_content(x)[0]
        with torch.no_grad():
            want = attended(encoding.at(late(subject))[layer].with_content(x)[0])
            for when in ("fresh", "rotated and attended"):
                for name, copied in ways.items():
                    try:
                        got = attended(copied(here))
                    except (pickle.PicklingError, AttributeError, TypeError) as error:
                        raise Broken(f"{when}, it is not {name}: {error}") from error
                    # A clone may have other strides, with which float32 products are summed in another order.
                    bound = 2.0**-20 if name == "rebuilt by tree_map" else 0.0
                    near(got, want, bound, f"layer {layer}, {when}, {name}")
                attended(here)


@law()
def survives_loading(subject: Subject) -> None:
    """Weights assigned to an encoding on meta stay when its buffers get memory; unfilled buffers are refused.

    Register buffers with ``register_constants``, which fills the buffers again.
    """
    encoding, at = subject.build(), subject.plain(9)
    want, state = effects(subject, encoding, at), copy.deepcopy(encoding.state_dict())
    encoding.to("meta").load_state_dict(state, assign=True)
    encoding._apply(lambda t: torch.empty_like(t, device="cpu") if t.is_meta else t)
    same(effects(subject, encoding, at), want, "buffers given memory after weights were assigned")
    encoding._apply(lambda t: t if isinstance(t, torch.nn.Parameter) else torch.full_like(t, 3))
    try:
        encoding.at(at)
        owed(not list(encoding.buffers()), "at() takes buffers that nobody filled; use register_constants")
    except InvalidArgument:
        encoding.reset_buffers()
    same(effects(subject, encoding, at), want, "after reset_buffers")


@law()
def survives_inference_mode(subject: Subject) -> None:
    """An encoding that was used in inference_mode, or built there without parameters, can be trained afterwards.

    Do not keep tensors between calls, because they may have been made in ``inference_mode``.
    """
    encoding, at = subject.build(), subject.plain(9)
    with torch.inference_mode():
        before = effects(subject, encoding, at)
        built = subject.build()
    for candidate in (encoding, *([] if list(encoding.parameters()) else [built])):
        given = [tensor.requires_grad_() for tensor in inputs(subject)]
        try:
            _everything(subject, candidate, given, at).backward()
        except RuntimeError as error:
            owed(False, f"training after inference mode fails: {error}")
        owed(given[3].grad is not None, "no gradient reaches v")
        for name, tensor in zip("xqkv", given, strict=True):
            owed(tensor.grad is None or bool(tensor.grad.isfinite().all()), f"the gradient of {name} is not finite")
        with torch.no_grad():  # so that the same kernels compute both
            same(effects(subject, candidate, at), before, "after inference mode")


@law()
def survives_another_default_dtype(subject: Subject) -> None:
    """An encoding that is used under a default dtype of float64, or built there without parameters, is unchanged.

    State the dtype of every new tensor: ``torch.arange(n, dtype=torch.float32)``.
    """
    encoding, at = subject.build(), late(subject)
    want = effects(subject, encoding, at)
    with default_dtype(torch.float64):
        got = effects(subject, encoding, at)
        built = None if list(encoding.parameters()) else effects(subject, subject.build(), at)
    same(got, want, "under a default of float64")
    if built is not None:
        same(built, want, "built under a default of float64")


@law()
def survives_another_default_device(subject: Subject) -> None:
    """An encoding that is used under any default device computes on the device of its positions and inputs.

    State the device of every new tensor: ``device=positions.device``.
    """
    encoding, at, given = subject.build(), late(subject), list(inputs(subject))
    want = _everything(subject, encoding, given, at)
    with torch.device("meta"):
        try:
            got = _everything(subject, encoding, given, at)
        except (RuntimeError, NotImplementedError) as error:
            raise Broken(f"under a default device of its own it fails: {error}") from error
    owed(not got.is_meta, "what it gives is on the default device")
    near(got, want, 0.0, "under another default device")


def _everything(
    subject: Subject, encoding: Encoding, given: list[torch.Tensor], positions: torch.Tensor
) -> torch.Tensor:
    """Return a number that depends on all effects of an encoding."""
    x, q, k, v = given
    placed = encoding.at(positions)
    total = placed.embed(x).sum()
    for _layer, awaiting in each_layer(placed, subject.period):
        here = awaiting.with_content(x)[0]
        total = total + attention(*here.rotate(q, k), v, here, causal=True).sum()
    return total


LAWS = (
    placings_survive_copies,
    survives_loading,
    survives_inference_mode,
    survives_another_default_dtype,
    survives_another_default_device,
)
