"""Positions of pictures, and of videos where they are right, against transformers' get_rope_index."""

import importlib
import random
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from posenc.positions import Image, Span, Text, Video, left_padded_rows, multimodal

pytestmark = pytest.mark.usefixtures("recent_transformers")

PATCHES, TEXT, IMAGE, VIDEO = (2, 4, 6, 10, 16), 0, 1, 2
HOMES = {
    "qwen2-vl": ("qwen2_vl", "Qwen2VLModel"),
    "qwen2.5-vl": ("qwen2_5_vl", "Qwen2_5_VLModel"),
    "qwen3-vl": ("qwen3_vl", "Qwen3VLModel"),
    "glm-4v": ("glm4v", "Glm4vModel"),
    "ernie-4.5-vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeModel"),
}
ALSO = [
    ("qwen2-vl", "paddleocr_vl", "PaddleOCRVLModel"),
    ("qwen3-vl", "qwen3_vl_moe", "Qwen3VLMoeModel"),
    ("qwen3-vl", "qwen3_5", "Qwen3_5Model"),
    ("qwen3-vl", "qwen3_5_moe", "Qwen3_5MoeModel"),
    ("qwen3-vl", "qwen4_exp", "Qwen4ExpModel"),
    ("qwen3-vl", "cosmos3_omni", "Cosmos3OmniModel"),
    ("qwen3-vl", "cosmos3_edge", "Cosmos3EdgeModel"),
    ("qwen3-vl", "cohere_compass", "CohereCompassModel"),
    ("glm-4v", "glm46v", "Glm46VModel"),
    ("glm-4v", "glm4v_moe", "Glm4vMoeModel"),
    ("glm-4v", "glm_ocr", "GlmOcrModel"),
]
"""Other models, each with a count of its own that is the rule of one of those families."""
COUNTS = pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
"""The number of random lists of spans."""


def randomly(spans: Sequence[Span], draw: random.Random) -> list[Span]:
    """One to four of the spans with text between and around; pictures that touch would be one to transformers."""
    found: list[Span] = []
    for _ in range(draw.randint(1, 4)):
        found += [Text(draw.randint(1, 9)), draw.choice(spans)]
    return [*found, Text(draw.randint(1, 9))] if draw.random() < 0.8 else found


def theirs(family: str, rows: list[list[Span]], home: tuple[str, str] | None = None) -> tuple[Tensor, Tensor]:
    """Their positions and next positions of left-padded rows; ``home`` is another model of the family's rule."""
    module, name = home or HOMES[family]
    model = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), name)
    vision = SimpleNamespace(spatial_merge_size=2, temporal_merge_size=2, tokens_per_second=2)
    self = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    self.get_vision_position_ids = partial(model.get_vision_position_ids, self)
    kinds, grids, seconds = [], {IMAGE: [], VIDEO: []}, []
    for row in rows:
        kinds.append([])
        for span in row:
            if isinstance(span, Text):
                kinds[-1] += [TEXT] * span.tokens
                continue
            video = isinstance(span, Video)
            frames = span.frames if video else 1
            a_token = 4 * (2 if video and family == "ernie-4.5-vl" else 1)
            kind = VIDEO if video else IMAGE
            kinds[-1] += [kind] * (frames * span.rows * span.columns // a_token)
            grids[kind].append([frames, span.rows, span.columns])
            seconds += [span.seconds] if video else []
    longest = max(map(len, kinds))
    padded = torch.tensor([[TEXT] * (longest - len(row)) + row for row in kinds])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in kinds])
    timed = {"second_per_grid_ts": torch.tensor(seconds)} if family == "qwen2.5-vl" and seconds else {}
    images, videos = (torch.tensor(grids[kind]) if grids[kind] else None for kind in (IMAGE, VIDEO))
    ids, deltas = model.get_rope_index(self, padded, padded, images, videos, attention_mask=mask, **timed)
    return ids, deltas[:, 0] + mask.sum(1)


def equals_theirs(family: str, count: int, spans: Sequence[Span], home: tuple[str, str] | None = None) -> None:
    draw = random.Random(0)
    for _ in range(count // 4):
        rows = [randomly(spans, draw) for _ in range(4)]
        mine = [multimodal(row, family) for row in rows]
        want, want_next = theirs(family, rows, home)
        at, mask = left_padded_rows([positions for positions, _ in mine])
        assert torch.equal(at[:, mask], want[:, mask])
        assert [after for _, after in mine] == want_next.tolist()


PICTURES = [Image(rows, columns) for rows in PATCHES for columns in PATCHES]


@COUNTS
@pytest.mark.parametrize("family", HOMES)
def test_pictures_count_as_theirs(family: str, count: int) -> None:
    equals_theirs(family, count, PICTURES)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "module", "name"), ALSO, ids=[module for _, module, _ in ALSO])
def test_a_thousand_lists_count_as_in_models_that_share_a_rule(family: str, module: str, name: str) -> None:
    equals_theirs(family, 1000, PICTURES, (module, name))


LAST = [
    ("qwen2-vl", [Video(frames, 6, 10) for frames in (1, 2, 5)]),
    ("qwen2.5-vl", [Video(4, 6, 10, seconds) for seconds in (0.25, 1 / 3, 0.5, 1001 / 30000)]),
    ("ernie-4.5-vl", [Video(frames, 6, 10) for frames in (2, 4, 10)]),
]
"""Videos whose last time id lies within their grid's larger side, 5 tokens: there their next position is right."""


@COUNTS
@pytest.mark.parametrize(("family", "videos"), LAST, ids=[family for family, _ in LAST])
def test_short_videos_count_as_theirs(family: str, videos: list[Span], count: int) -> None:
    equals_theirs(family, count, [*videos, *PICTURES[:3]])


@pytest.mark.parametrize("family", ["qwen2-vl", "qwen2.5-vl"])
def test_text_after_a_long_video_is_where_theirs_is_not(family: str) -> None:
    """Theirs starts inside the video's time; should they mend it, this says so."""
    row: list[Span] = [Text(3), Video(6, 4, 4, seconds=1.0), Text(3)]
    (want, _), (mine, _) = theirs(family, [row]), multimodal(row, family)
    assert torch.equal(mine[:, :27], want[:, 0, :27])
    assert want[0, 0, 27:].tolist() == [5, 6, 7]
    assert mine[0, 27].item() == want[0, 0, :27].max().item() + 1


TEXT_ID, MARKS, SOUND = 7, (10, 11), (12, 13)
"""Ids of Omni: what stands before and after a picture, and before and after sound."""


def omni(row: list[Span], sounds: set[int]) -> tuple[Tensor, int]:
    """Qwen2.5-Omni's own count; every picture, video and sound has a mark before it and one after."""
    from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as home

    model = home.Qwen2_5OmniPreTrainedModelForConditionalGeneration
    config = SimpleNamespace(
        image_token_id=1,
        video_token_id=2,
        audio_token_id=3,
        vision_start_token_id=MARKS[0],
        audio_start_token_id=SOUND[0],
        position_id_per_seconds=25,
        seconds_per_chunk=2,
    )
    self = SimpleNamespace(config=config, spatial_merge_size=2)
    self.get_llm_pos_ids_for_vision = partial(model.get_llm_pos_ids_for_vision, self)
    ids, images, videos, seconds, lengths = [], [], [], [], []
    for i, span in enumerate(row):
        if isinstance(span, Text) and i not in sounds:
            ids += [TEXT_ID] * span.tokens
        elif isinstance(span, Text):
            ids += [SOUND[0], *[3] * span.tokens, SOUND[1]]
            lengths.append(4 * span.tokens)  # of which two convolutions of stride 2 leave these
        else:
            video = isinstance(span, Video)
            frames = span.frames if video else 1
            ids += [MARKS[0], *[2 if video else 1] * (frames * span.rows * span.columns // 4), MARKS[1]]
            (videos if video else images).append([frames, span.rows, span.columns])
            seconds += [span.seconds] if video else []
    grids = [torch.tensor(g) if g else None for g in (images, videos)]
    at, delta = model.get_rope_index(
        self,
        torch.tensor([ids]),
        *grids,
        audio_seqlens=torch.tensor(lengths),
        second_per_grids=torch.tensor(seconds),
        attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
    )
    return at[:, 0], int(delta) + len(ids)


@COUNTS
def test_omni_counts_as_theirs(count: int) -> None:
    """Pictures, videos of any length and sounds; marks are text. (Sound woven into a video has no span here.)"""
    draw = random.Random(0)
    kinds = [Image(4, 6), Image(10, 2), Video(3, 4, 4, 0.5), Video(9, 2, 4, 1.0), Video(2, 6, 6, 2.0), Text(5)]
    for _ in range(count):
        row: list[Span] = [Text(3), Image(2, 2)]  # without any picture they count otherwise
        sounds = set()
        for _ in range(draw.randint(1, 4)):
            row += [Text(draw.randint(1, 5)), draw.choice(kinds)]
            sounds |= {len(row) - 1} if isinstance(row[-1], Text) else set()
        marked = [s for i, span in enumerate(row) for s in ([span] if i % 2 == 0 else [Text(1), span, Text(1)])]
        mine, after = multimodal(marked, "qwen2.5-omni")
        want, want_next = omni(row, sounds)
        assert torch.equal(mine, want)
        assert after == want_next
