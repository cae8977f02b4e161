"""Run a model to find what each attention layer does with positions."""

import contextlib
import inspect
import math
import re

import torch
from tools.model_files.release import ROWS
from tools.model_files.stand_ins import Anything

GROWTH = (8191, 20000, 131071, 500000)
"""The positions whose queries are compared with the queries at position 0."""
NUMBER = re.compile(r"(?:(?:layers|h|blocks)\.|^(?=\d+\.attn\.))(\d+)\.")
OTHERS = ("vision", "visual", "audio", "tower", "mtp", "indexer")
"""Parts of names that layers outside the language model have."""


def answer(release, config):
    """Return the class, the longest input and the facts of every layer that a release computes for this config."""
    release.fresh()
    model, facts = release.build(config)
    paths = dict(model.named_modules())
    release.tables = [
        module
        for path, module in paths.items()
        if path.endswith("rotary_emb")
        and type(module).__module__.startswith("transformers.")
        and not any(other in path for other in OTHERS)
    ]
    owners = {child: path for path, module in paths.items() for child in module.children()}
    layers, measured = {}, {}
    for attention in release.attentions:
        path = owners.get(attention)
        number = next((m for name in (attention.layer_name, path) if (m := NUMBER.search(f"{name}."))), None)
        if number and not any(other in f"{attention.layer_name} {path}" for other in OTHERS):
            layer = int(number[1])
            owner = paths.get(path) or _of_transformers(paths.values(), layer)
            found = _layer(release, owner, attention, layer, measured)
            if layer not in layers or found["rotates"] is not None:
                layers[layer] = found
    for path, module in paths.items():  # layers with their own attention kernel
        number = NUMBER.search(f"{path}.")
        ropes = [child for child in module.children() if child in release.ropes]
        if number and ropes and int(number[1]) not in layers and not any(other in path for other in OTHERS):
            layers[int(number[1])] = _unrun(release, module, ropes[0], measured)
    return {**facts, "layers": grouped(layers)}


def _of_transformers(modules, layer):
    """Return transformers' attention module of a layer, by its number."""
    alike = (module for module in modules if type(module).__module__.startswith("transformers."))
    named = (module for module in alike if type(module).__name__.endswith("Attention"))
    return next((module for module in named if getattr(module, "layer_idx", None) == layer), None)


def grouped(layers):
    """Group equal layers: return a list of facts, each with the numbers of its layers."""
    groups = {}
    for number, facts in sorted(layers.items()):
        groups.setdefault(repr(facts), {**facts, "layers": []})["layers"].append(number)
    return list(groups.values())


def _layer(release, owner, attention, number, measured):
    facts = {"where": "", **release.made_with(attention)}
    bad = [name for name, value in facts.items() if isinstance(value, Anything)]
    if bad:
        raise TypeError(f"facts contain values of stubs: {bad}")
    if owner is None:
        return {**facts, "rotates": None, "why": "no module owns its attention"}
    nope, rope = (vars(owner).get(f"qk_{part}_head_dim") for part in ("nope", "rope"))
    if isinstance(nope, int):
        facts["latent"] = [nope, rope]
    facts["where"] = release.source(type(owner), r"def __init__")
    own = [module for module in owner.modules() if module in release.ropes]
    ours = type(owner).__module__.startswith("transformers.")
    if "position_embeddings" in inspect.signature(owner.forward).parameters and not ours:
        return {**facts, "rotates": None, "why": "cos and sin are handed to it"}
    try:
        moved, called = run(release, owner, attention, 1, number)
        still, _ = run(release, owner, attention, 0, number)
    except Exception as error:
        facts |= {"rotates": None, "why": f"{type(error).__name__}: {str(error)[:100]}"}
        return {**facts, **(_measured(release, own[0], measured) if own else {})}
    if attention.named.get("sinks") is not None:
        facts["sinks"] = True
    if ours:
        facts["scale"] = release.made_with(attention)["scale"]
        if facts.get("latent"):
            return {**facts, "rotates": None, "why": "the code of transformers lays latent pairs out anew"}
        facts |= {"rotates": bool(moved) and not torch.equal(moved[0], still[0])}
        facts |= _by_transformers(release, facts, number, still, moved) if facts["rotates"] else {}
        return {**facts, "queries": _growth(release, owner, attention, still, number, facts["rotates"])}
    if own and not called and len(still) < 3:
        return {**facts, "rotates": None, "why": "its rotation is a kernel", **_measured(release, own[0], measured)}
    facts |= {"rotates": bool(called), "queries": _growth(release, owner, attention, still, number, bool(called))}
    return {**facts, **(_measured(release, called[0], measured) if called else {})}


def _unrun(release, owner, rope, measured):
    numbers = {name: value for name, value in vars(owner).items() if type(value) in (int, float)}
    scale = next((numbers[name] for name in ("softmax_scale", "scaling", "scale") if name in numbers), None)
    facts = {"where": release.source(type(owner), r"def __init__"), "scale": scale}
    return {**facts, "rotates": None, "why": "its attention is a kernel", **_measured(release, rope, measured)}


def _growth(release, owner, attention, still, number, rotates):
    """Return the ratio of the queries' norm at far positions to the norm at position 0, if it is not 1."""
    grown = {}
    for position in GROWTH:
        if still and not (rotates and position >= ROWS):
            try:
                far, _ = run(release, owner, attention, position, number)
            except IndexError:  # past the end of the table
                break
            times = (far[0].norm() / still[0].norm()).item()
            if abs(times - 1) > 1e-5:
                grown[str(position)] = round(times, 6)
    return grown


def run(release, owner, attention, position, number):
    """Return the inputs of the attention and the rotary layers that are called, for two tokens at a position."""
    release.calls.clear()
    attention.__dict__["given"] = []
    at, hidden = torch.tensor([position] * 2), torch.zeros(2, release.text.hidden_size)
    handed = {}
    values = {"positions": at, "position_ids": at, "hidden_states": hidden, "x": hidden}
    if type(owner).__module__.startswith("transformers."):
        values = {name: value[None] for name, value in values.items()}
        values["position_embeddings"] = turned(release, values["position_ids"], number)
        handed = {} if attention in set(owner.children()) else {"attention_instances": {number: attention}}
    arguments = {
        name: values[name] if name in values else Anything(name)
        for name, parameter in inspect.signature(owner.forward).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and (name in values or parameter.default is parameter.empty)
    }
    with torch.no_grad():
        try:
            owner.forward(**arguments, **handed)
        except Exception:
            if not attention.given:  # modules after the attention are stubs
                raise
    return [value.clone() for value in attention.given], list(release.calls)


def turned(release, positions, number):
    """Return cos and sin of transformers' own module, which runs inside the program."""
    kinds = getattr(release.text, "layer_types", None)
    table, x = release.tables[0], torch.zeros(1, 2, release.text.hidden_size)
    by_type = "layer_type" in inspect.signature(table.forward).parameters
    return table(x, positions, kinds[number]) if by_type and kinds else table(x, positions)


def _by_transformers(release, facts, number, still, moved):
    """Return the frequencies of transformers' module, and the pairing in which rotation preserves norms."""
    kinds, table = getattr(release.text, "layer_types", None), release.tables[0]
    names = [name for name, _ in table.named_buffers(recurse=False) if name.endswith("inv_freq")]
    kind = f"{kinds[number]}_inv_freq" if kinds else ""
    name = next((each for each in names if each == kind), "inv_freq")
    theta = getattr(table, name).tolist()
    change = {}
    for pairing, shape, axis in (("half", (2, -1), 0), ("interleaved", (-1, 2), 1)):
        before, after = (
            given[0].reshape(-1, facts["head_dim"])[0, : 2 * len(theta)].double().reshape(shape).pow(2).sum(axis)
            for given in (still, moved)
        )
        change[pairing] = (before - after).abs().max().item()
    return {
        "rotary_dim": 2 * len(theta),
        "frequencies": theta,
        "attention_factor": float(getattr(table, name.replace("inv_freq", "attention_scaling"), 1.0)),
        "pairing": min(change, key=change.__getitem__),
    }


def _measured(release, rope, measured):
    if rope not in measured:
        measured[rope] = {**rotation(rope), "rope": release.ropes.get(rope, "")}
    return measured[rope]


def rotation(rope):
    """Return frequencies, factor, pairs and axes of a rotary layer, from unit vectors rotated at position 1."""
    axes = max(3, len(rope.mrope_section)) if getattr(rope, "mrope_section", None) else 1
    image = _image(rope, [1] * axes, axes)
    pairs = [(i, j) for i in range(len(image)) for j in image[i].nonzero().flatten().tolist() if i < j]
    if not pairs:
        return {"rotary_dim": 0, "frequencies": [], "attention_factor": 1.0}
    theta = [math.atan2(image[i, j], image[i, i]) for i, j in pairs]
    factors = [math.hypot(image[i, j], image[i, i]) for i, j in pairs]
    distances = {j - i for i, j in pairs}
    found = {
        "rotary_dim": 2 * len(pairs),
        "frequencies": [abs(turn) for turn in theta],
        "attention_factor": sum(factors) / len(factors),
        "pairing": {1: "interleaved"}.get(min(distances), "half") if len(distances) == 1 else "mixed",
    }
    if max(theta) < 0:
        found["backwards"] = True
    if axes > 1:
        alone = [_image(rope, [int(axis == one) for one in range(axes)], axes) for axis in range(axes)]
        found["axes"] = [next((axis for axis in range(axes) if alone[axis][i, j]), 0) for i, j in pairs]
    return found


def _image(rope, position, axes):
    """Rotate unit vectors at a position, with an additional far token if a batch selects the list of factors."""
    head, far = rope.head_size, int(hasattr(rope, "long_factor"))
    vectors = torch.cat([torch.eye(head), torch.zeros(far, head)])
    at = torch.tensor([position] * head)
    at = at.T.contiguous() if axes > 1 else at.flatten()
    if far:
        at = torch.cat([at, torch.tensor([rope.original_max_position_embeddings + 1])])
    forward = getattr(rope, "forward_native", None) or rope.forward
    for shaped in (vectors, vectors[:, None]):  # rotary layers of latent attention need an axis of heads
        with torch.no_grad(), contextlib.suppress(RuntimeError):
            answer = forward(at, shaped.clone(), shaped.clone())
            answer = answer[0] if isinstance(answer, tuple) else answer
            if answer.numel() == vectors.numel():
                return answer.reshape(len(vectors), head)[:head].double()
    raise TypeError(f"{type(rope).__name__} takes no unit vectors")
