"""Compares the recorded answers of released model files with position tables, field by field."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.query_scale import QueryScale
from posenc.encodings.text import parse
from posenc.integrations.position_table import LayerTable, PositionTable

KEPT = Path(__file__).parents[1] / "data" / "model_files"
SAMPLED = 8
CLOSE = 2e-5
"""The tolerance for a frequency that was computed in float32 and measured from its cos and sin."""


@cache
def configs() -> dict[str, dict[str, Any]]:
    """Return every recorded config by name."""
    return {line["name"]: line["config"] for line in lines("configs")}


def lines(name: str) -> list[dict[str, Any]]:
    """Return the lines of a recorded file."""
    return [json.loads(line) for line in (KEPT / f"{name}.jsonl").read_text().splitlines()]


def apart(answer: Mapping[str, Any], table: PositionTable) -> dict[str, str]:
    """Return the differences between a table and an answer, with a sentence for each field."""
    found: dict[str, str] = {}
    for facts in answer["layers"]:
        for number in facts["layers"]:
            if number < len(table.layer_types):
                layer = table.layers[table.layer_types[number]]
                for field, sentence in _layer_apart(facts, layer, table.admitted_length):
                    found.setdefault(field, f"layer {number}: {sentence}")
    asked = {number for facts in answer["layers"] for number in facts["layers"]}
    rotating = {i for i, name in enumerate(table.layer_types) if table.layers[name].frequencies}
    if silent := sorted(rotating - asked):
        found["layers"] = f"layers {silent[:4]} have no attention there"
    return found


def _layer_apart(facts: Mapping[str, Any], layer: LayerTable, longest: int) -> Iterator[tuple[str, str]]:
    def unless(same: bool, field: str, theirs: Any, ours: Any) -> Iterator[tuple[str, str]]:
        if not same:
            yield field, f"{field} {theirs} in the program, {ours} in the table"

    turning = [theta for theta in layer.frequencies if theta]
    rotates = facts["rotates"]
    if rotates is not None:
        yield from unless(rotates == bool(turning), "encoding", rotates, layer.encoding)
        yield from _queries(facts.get("queries", {}), layer, bool(rotates))
    if turning and rotates is not False and "frequencies" in facts:
        sampled = [*turning[::SAMPLED], *turning[-1:]]
        theirs = facts["frequencies"]
        same = len(theirs) == len(sampled) and all(
            math.isclose(one, other, rel_tol=CLOSE) for one, other in zip(theirs, sampled, strict=True)
        )
        yield from unless(same, "frequencies", theirs, [float(f"{theta:.8g}") for theta in sampled])
        factor, axes = facts["attention_factor"], facts.get("axes", [0] * len(turning))
        yield from unless(
            math.isclose(factor, layer.attention_factor, rel_tol=CLOSE),
            "attention_factor",
            factor,
            layer.attention_factor,
        )
        yield from unless(facts["pairing"] == layer.pairing, "pairing", facts["pairing"], layer.pairing)
        yield from unless(facts.get("backwards", False) == layer.backwards, "backwards", True, layer.backwards)
        ours = [axis for axis, theta in zip(layer.axes, layer.frequencies, strict=True) if theta]
        yield from unless(axes == ours, "axes", axes, ours)
    width = sum(facts["latent"]) if facts.get("latent") else facts.get("head_dim")
    if facts.get("scale") and width:
        factor = facts["scale"] * math.sqrt(width)
        same = math.isclose(factor, layer.softmax_factor, rel_tol=CLOSE)
        yield from unless(same, "softmax_factor", factor, layer.softmax_factor)
    if "attention is a kernel" not in facts.get("why", ""):
        for field in ("window", "chunk", "softcap"):
            ours, theirs = (
                value if value and value < longest else None for value in (getattr(layer, field), facts.get(field))
            )
            yield from unless(ours == theirs, field, theirs, ours)
        yield from unless(facts.get("sinks", False) == layer.sinks, "sinks", facts.get("sinks"), layer.sinks)
    yield from unless(
        ("alibi" in facts) == ("alibi" in layer.encoding), "alibi", facts.get("alibi"), layer.encoding
    )


def _queries(grown: Mapping[str, float], layer: LayerTable, rotates: bool) -> Iterator[tuple[str, str]]:
    scale = build(parse(layer.query_scale), ModelShape()) if layer.query_scale else None
    for position in (8191, 20000) if rotates else (8191, 20000, 131071, 500000):
        ours = 1.0
        if scale is not None:
            assert isinstance(scale, QueryScale)
            first, far = scale.factors(torch.tensor([0, position])).flatten().tolist()
            ours = far / first
        theirs = grown.get(str(position), 1.0)
        if not math.isclose(ours, theirs, rel_tol=1e-4):
            yield (
                "query_scale",
                f"queries at {position} are {theirs} times as long in the program, {ours:.6g} in the table",
            )
