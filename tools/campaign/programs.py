"""What torch's programs make of attention: compiled, exported, transformed; equal to eager."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from tools.campaign import attention
from tools.campaign.attention import AttentionCase, Scene
from tools.campaign.core import Area, agree, normal, numpy
from torch import Tensor, nn

import posenc

TENSORS = ("q", "k", "v", "x")


@dataclass(frozen=True)
class ProgramCase:
    """A call of attention, and the program that makes it."""

    case: AttentionCase
    program: str
    inside: bool
    """Whether the encoding is placed by the program too, or before it."""
    dynamic: bool

    def judge(self) -> None:
        with attention.small_blocks(self.case.rows):
            scene = Scene(self.case)
            try:
                PROGRAMS[self.program](scene, self)
            finally:
                if self.program in ("compile", "inductor", "export"):
                    torch._dynamo.reset()


class Net(nn.Module):
    """One call of attention as a module of tensors."""

    def __init__(self, scene: Scene, inside: bool) -> None:
        super().__init__()
        self.encoding, self.mask, self.scale = scene.encoding, scene.mask, scene.case.scale
        self.more = {"softcap": scene.case.softcap, "sinks": scene.sinks}
        self.placed = None if inside else scene.placed()
        self.at = scene.q_positions, scene.k_positions, scene.at_dtype
        self.same = scene.case.queries == scene.case.keys and scene.case.place == "end"

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        placed = self.placed
        if placed is None:
            at, keys, dtype = self.at
            placed = self.encoding.at(at, None if self.same else keys, dtype=dtype)
            if self.encoding.needs_content:
                placed = placed.with_content(x)[0]
        q, k = placed.rotate(q, k)
        out: Tensor = posenc.attention(q, k, v, placed, self.mask, scale=self.scale, **self.more)  # type: ignore[call-overload]
        return out


def inputs(scene: Scene) -> tuple[Tensor, ...]:
    return tuple(getattr(scene, name) for name in TENSORS)


def tolerance(want: Tensor) -> float:
    return 1e-9 if want.dtype == torch.float64 else 2e-5 if want.dtype == torch.float32 else 0.05


def judge_vmap(scene: Scene, case: ProgramCase) -> None:
    net, r = Net(scene, case.inside), scene.random
    stacks = [torch.stack([x, *(normal(r, *x.shape, dtype=x.dtype) for _ in range(2))]) for x in inputs(scene)]
    want = torch.stack([net(*each) for each in zip(*stacks, strict=True)])
    agree("vmap", torch.func.vmap(net)(*stacks), numpy(want), 10 * tolerance(want))


def judge_func_grad(scene: Scene, case: ProgramCase) -> None:
    net, tensors, chosen = Net(scene, case.inside), inputs(scene), scene.random.randrange(3)
    weight = normal(scene.random, *net(*tensors).shape, dtype=scene.dtype)
    leaf = tensors[chosen].detach().requires_grad_()
    want = torch.autograd.grad((net(*tensors[:chosen], leaf, *tensors[chosen + 1 :]) * weight).sum(), leaf)[0]

    def loss(x: Tensor) -> Tensor:
        return (net(*tensors[:chosen], x, *tensors[chosen + 1 :]) * weight).sum()

    got = torch.func.grad(loss)(tensors[chosen])
    agree(f"func.grad of {TENSORS[chosen]}", got, numpy(want), 100 * tolerance(want))
    direction = normal(scene.random, *leaf.shape, dtype=scene.dtype)
    forward = torch.func.jvp(loss, (tensors[chosen],), (direction,))[1]
    slack = 100 * tolerance(want) * (1 + float(want.norm()))
    agree(f"func.jvp of {TENSORS[chosen]}", forward, numpy((want * direction).sum()), slack)


def judge_jacobian(scene: Scene, case: ProgramCase) -> None:
    net, tensors = Net(scene, case.inside), inputs(scene)
    want: Any = torch.autograd.functional.jacobian(lambda q: net(q, *tensors[1:]), tensors[0])
    program = torch.func.jacrev if case.dynamic else torch.func.jacfwd
    got = program(lambda q: net(q, *tensors[1:]))(tensors[0])
    agree(program.__name__, got, numpy(want), 100 * tolerance(want))


def judge_functional_call(scene: Scene, case: ProgramCase) -> None:
    net = Net(scene, inside=True)
    other = {name: normal(scene.random, *p.shape, dtype=p.dtype) for name, p in net.named_parameters()}
    got = torch.func.functional_call(net, other, inputs(scene))
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(other[name])
    want = net(*inputs(scene))
    agree("functional_call", got, numpy(want), tolerance(want))


def judge_compiled(scene: Scene, case: ProgramCase) -> None:
    net, tensors = Net(scene, case.inside), inputs(scene)
    backend = "inductor" if case.program == "inductor" else "aot_eager"
    with torch.no_grad() if case.case.asked == "values" else torch.enable_grad():
        want = net(*tensors)
        compiled = torch.compile(net, fullgraph=True, dynamic=case.dynamic, backend=backend)
        agree(f"{backend}", compiled(*tensors), numpy(want), 10 * tolerance(want))
    if case.case.asked == "values" or case.program == "inductor":
        return
    leaf = tensors[0].detach().requires_grad_()
    weight = normal(scene.random, *want.shape, dtype=want.dtype)
    grads = [torch.autograd.grad((f(leaf, *tensors[1:]) * weight).sum(), leaf)[0] for f in (net, compiled)]
    agree(f"gradient by {backend}", grads[1], numpy(grads[0]), 100 * tolerance(want))


def judge_exported(scene: Scene, case: ProgramCase) -> None:
    net, tensors = Net(scene, inside=True), inputs(scene)
    with torch.no_grad():
        want = net(*tensors)
        program = torch.export.export(net, tensors)
        agree("export", program.module()(*tensors), numpy(want), 10 * tolerance(want))


PROGRAMS: dict[str, Callable[[Scene, ProgramCase], None]] = {
    "vmap": judge_vmap,
    "grad": judge_func_grad,
    "jacobian": judge_jacobian,
    "functional_call": judge_functional_call,
    "compile": judge_compiled,
    "export": judge_exported,
    "inductor": judge_compiled,
}


def draw(r: Random) -> ProgramCase:
    """A case that the library's contracts admit; slow programs come seldom."""
    program = r.choice(("vmap", "grad", "jacobian", "functional_call"))
    program = r.choice(("compile", "compile", "export")) if r.random() < 0.07 else program
    program = "inductor" if r.random() < 0.004 else program
    while True:
        case = attention.draw(r)
        plain = case.backend == "auto" and case.asked in ("values", "gradients") and case.queries <= 17
        small = program != "jacobian" or case.queries * case.batch * case.heads <= 40
        content = case.kinds & {"FoX", "Inkling"} and (case.queries != case.keys or case.place != "end")
        if plain and small and not content:
            break
    return ProgramCase(case, program, inside=r.random() < 0.5, dynamic=r.random() < 0.5)


AREA = Area("programs", "compile, export, transforms: equal to eager", draw)
