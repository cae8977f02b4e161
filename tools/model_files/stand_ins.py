"""Stubs for the parts of a released program that are not imported."""

import inspect

import torch
from torch import nn


def constant(value):
    """Return a function that always returns ``value``."""
    return lambda *_, **__: value


class Base:
    """A base class that replaces a missing base class."""

    def __init_subclass__(cls, **_):
        super().__init_subclass__()

    def __class_getitem__(cls, _):
        return cls

    def __init__(self, *_, **__):
        super().__init__()

    def __getattr__(self, name):
        return attribute(type(self).__name__, name)


class Anything:
    """A stub that is false and empty; its attributes, items, results and sums are stubs too.

    Called with only a class or function, it returns its argument, like a decorator. If its name looks like the name
    of a class, a call returns a module.
    """

    def __init__(self, name):
        self.__dict__["name"] = name

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__"):
            return self.__dict__.get("name", "")
        return self.__dict__.setdefault(name, attribute(self.__dict__.get("name", ""), name))

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and (inspect.isclass(args[0]) or inspect.isroutine(args[0])):
            return args[0]
        name = self.__dict__.get("name", "")
        last = name.rpartition(".")[2]
        return Part(name) if last[:1].isupper() and not last.isupper() else Anything(f"{name}()")

    def __mro_entries__(self, bases):
        others = [base for base in bases if isinstance(base, Anything) or base is Base]
        return (Base,) if others[0] is self else ()

    def __repr__(self):
        return f"<{self.__dict__['name']}>"


RESULTS = {
    "bool contains lt le gt ge instancecheck subclasscheck": constant(False),
    "len int index rmod": constant(0),
    "float": constant(0.0),
    "divmod": constant((0, 0)),
    "iter": lambda _: iter(()),
    "exit setitem": constant(None),
    "enter getitem or ror and add radd sub rsub mul rmul mod pow rpow neg": lambda self, *_: self,
    "truediv rtruediv floordiv rfloordiv": lambda self, *_: self,
}
"""The results of operators on ``Anything``."""
for names, result in RESULTS.items():
    for operator in names.split():
        setattr(Anything, f"__{operator}__", result)


def attribute(of, name):
    """Return a stub with this name, except for special methods."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything(f"{of}.{name}")


class Part(nn.Module):
    """A module that returns its first tensor argument; its parameters need no memory."""

    def __init__(self, *_, **__):
        super().__init__()
        self._parameters["weight"] = nn.Parameter(torch.zeros(1, 1, 1), requires_grad=False)
        self.weight.weight_loader = None

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "is_causal":  # its presence marks an encoder
                raise
            return attribute(type(self).__name__, name)

    def __setattr__(self, name, value):
        if value is None or isinstance(value, nn.Parameter):
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def register_parameter(self, name, parameter):
        self._parameters[name] = parameter

    def register_buffer(self, name, tensor, persistent=True):
        self._parameters.pop(name, None)
        super().register_buffer(name, tensor, persistent)

    def forward(self, *args, **kwargs):
        return next((value for value in (*args, *kwargs.values()) if torch.is_tensor(value)), None)


class Operator(nn.Module):
    """An operator with one method per platform, which runs the native method."""

    def __init__(self, *_, **__):
        super().__init__()

    @classmethod
    def register(cls, *_, **__):
        return lambda decorated: decorated

    @classmethod
    def enabled(cls):
        return False

    def maybe_compile(self, function, **_):
        return function

    def forward(self, *args, **kwargs):
        return self.forward_native(*args, **kwargs)


def noise(like, width):
    """Return seeded noise of this width, the same for every token."""
    row = torch.randn(int(width), generator=torch.Generator().manual_seed(int(width)))
    return row.expand(*like.shape[:-1], int(width)).clone()


class Linear(Part):
    """A linear layer, or several in one, that returns noise of its output widths."""

    names = ("input_size", "output_size")

    def __init__(self, *args, **kwargs):
        super().__init__()
        made = {**dict(zip(self.names, args, strict=False)), **kwargs}
        self.sizes = self.output_sizes = self.output_partition_sizes = self.widths(made)
        self.input_size = self.input_size_per_partition = made.get(self.names[0])
        self.output_size = self.output_size_per_partition = sum(self.sizes)
        self.q_size, self.kv_size, self.head_size = self.sizes[0], self.sizes[-1], made.get("head_size")
        self.num_heads = made.get("total_num_heads")
        self.num_kv_heads = made.get("total_num_kv_heads") or self.num_heads
        self.tp_size, self.tp_rank, self.skip_bias_add, self.bias = 1, 0, False, None
        self.pair = kwargs.get("return_bias", True)

    def widths(self, made):
        sizes = made.get("output_sizes") or made.get("output_size") or [made["intermediate_size"]] * 2
        return list(sizes) if isinstance(sizes, list | tuple) else [sizes]

    def forward(self, x, *_, **__):
        x = x[0] if isinstance(x, tuple) else x
        answer = torch.cat([noise(x, size) for size in self.sizes], -1)
        return (answer, None) if self.pair else answer


class Projections(Linear):
    """A fused projection to queries, keys and values."""

    names = ("hidden_size", "head_size", "total_num_heads", "total_num_kv_heads")

    def widths(self, made):
        size, heads = made["head_size"], made["total_num_heads"]
        shared = made.get("total_num_kv_heads") or heads
        return [size * heads, size * shared, made.get("v_head_size", size) * shared]


class Norm(Part):
    """An identity in place of a norm, so that rotation preserves norms."""

    variance_epsilon = 1e-6

    def forward(self, x, residual=None, *_, **__):
        return x if residual is None else (x, residual)

    @staticmethod
    def forward_qkv(q_norm, k_norm, qkv, q_size, kv_size, *_, **__):
        """MiniMax's joint norm of queries and keys."""
        return qkv.split([q_size, kv_size, kv_size], -1)


class Embedding(Part):
    """A token table that returns noise."""

    def __init__(self, rows=None, width=None, *_, **made):
        super().__init__()
        self.width = width or made.get("embedding_dim")

    def tie_weights(self, *_):
        return self

    def forward(self, ids):
        return noise(ids.unsqueeze(-1), self.width)


class Count(int):
    """A number that can also be called, like the ranks and sizes of torch's groups."""

    def __call__(self):
        return int(self)


class OneProcess:
    """A parallel layout with a single process, and each of its groups."""

    size, rank = Count(1), Count(0)
    rank_in_group, is_first_rank, is_last_rank = 0, True, True

    def __getattr__(self, name):
        if name.endswith("group"):
            return self
        return 1 if name.endswith("size") else 0 if name.endswith("rank") else attribute("process", name)


class Settings:
    """Engine settings: the given values, then the released class's literal defaults, otherwise None."""

    def __init__(self, defaults=None, **given):
        self.__dict__.update({**(defaults or {}), **given})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)


def layer_class(name):
    """Return the stub of a layer by its name, or None."""
    if not name[:1].isupper():
        return None
    if name.endswith("Linear"):
        return Projections if "QKV" in name else Linear
    return Norm if name.endswith(("RMSNorm", "LayerNorm")) else None
