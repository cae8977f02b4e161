"""The layouts of image and video models: their channel maps, and what they refuse."""

import pytest

import posenc
from posenc.errors import InvalidArgument
from posenc.integrations.attention_layouts import LAYOUTS

ONE, ODD = ("1", "0.1", "0.01", "0.001"), ("0.3162", "0.03162", "0.003162", "0.0003162")
HUNDRED = ("1", "0.3162", "0.1", "0.03162")


def halves(*sides: tuple[str, tuple[str, ...]]) -> list[str]:
    """Pair i is channels i and i + 8 of sixteen."""
    return [f"{i} {i + 8}  {turn}" for i, turn in enumerate(a + " " + f for a, ladder in sides for f in ladder)]


def neighbours(*sides: tuple[str, tuple[str, ...]]) -> list[str]:
    turns = [f"{axis} {f}" for axis, ladder in sides for f in ladder]
    return [f"{2 * i} {2 * i + 1}  {turn}" for i, turn in enumerate(turns)]


MAPS = {
    "qwen-vl-vision": halves(("y", ONE), ("x", ONE)),
    "step3.7-vision": halves(("x", ONE), ("y", ONE)),
    "pixtral": halves(("y", ONE), ("x", ODD)),
    "kimi-k2.5-vision": [f"{i} {i + 8}  {'xy'[i % 2]} {ONE[i // 2]}" for i in range(8)],
    "gemma4-vision": [
        f"{8 * block + i} {8 * block + i + 4}  {axis} {f}"
        for block, axis in enumerate("xy")
        for i, f in enumerate(HUNDRED)
    ],
    "sam2": neighbours(("x", ONE), ("y", ONE)),
    "sam3-global": neighbours(*((a, ("0.3333", "0.03333", "0.003333", "0.0003333")) for a in "xy")),
    "llama4-vision": neighbours(("x", ONE), ("y", ONE)),
    "eva": neighbours(("y", ONE), ("x", ONE)),
    "dinov3": halves(*((a, ("0.3927", "0.1242", "0.03927", "0.01242")) for a in "yx")),
    "minimax-m3-vision": [f"{i} {i + 6}  {'tyx'[i // 2]} {('1', '0.01')[i % 2]}" for i in range(6)],
    "v-jepa2": [f"{2 * i} {2 * i + 1}  {'tyx'[i // 2]} 1  {'tyx'[i // 2]} 0.01" for i in range(6)],
    "wan": neighbours(("t", ONE), ("y", ("1", "0.01")), ("x", ("1", "0.01"))),
    "z-image": neighbours(("t", ("1", "0.0625")), *((a, ("1", "0.1575", "0.0248")) for a in "yx")),
    "ernie-image": [
        f"{i} {i + 8}  {low}  {high}"
        for i, (low, high) in enumerate(
            (low, high)
            for low, high in (
                ("t 1", "y 0.0248"),
                ("t 0.0625", "x 1"),
                ("y 1", "x 0.1575"),
                ("y 0.1575", "x 0.0248"),
            )
            for _ in range(2)
        )
    ],
    "flux2": neighbours(*((a, ("1", "0.02236")) for a in "tyxl")),
}
"""Sixteen channels and base 10 000 but where a family has its own: channels of each pair, coordinate, frequency.

DINOv3's are 2π/16 of a ladder from 100, in pictures of 16 cells; EVA's are the ladder itself there.
"""
WIDTHS = {"flux": (8, 28, 28), "hunyuan-video": (8, 28, 28), "qwen-image": (8, 28, 28), "wan": (22, 21, 21)}
"""Pairs of every axis in a head of 128 channels."""


def made(family: str, head_dim: int) -> posenc.Encoding:
    parts = {"parts": 16} if LAYOUTS[family].in_parts else {}
    return posenc.encoding(LAYOUTS[family].encoding(head_dim, **parts), head_dim=head_dim)


def turns(family: str) -> list[str]:
    """Channels of each pair, and by what each of the two turns, once if by the same."""
    by_number = {channel.channel: channel for channel in made(family, 16).channel_map()}  # type: ignore[operator]
    pairs = [(one, by_number[one.partner]) for one in by_number.values() if one.channel < one.partner]
    return [
        f"{pair[0].channel} {pair[1].channel}  "
        + "  ".join(dict.fromkeys(f"{LAYOUTS[family].letters[one.axis]} {one.frequency:.4g}" for one in pair))
        for pair in pairs
    ]


def test_every_family_is_held_to_its_map() -> None:
    assert set(LAYOUTS) == {*MAPS, *WIDTHS}


@pytest.mark.parametrize("family", MAPS)
def test_every_channel_turns_as_in_the_models(family: str) -> None:
    assert turns(family) == MAPS[family]


@pytest.mark.parametrize("family", WIDTHS)
def test_axes_share_a_head_as_in_the_models(family: str) -> None:
    channels = made(family, 128).channel_map()  # type: ignore[operator]
    assert tuple(sum(one.axis == axis for one in channels) // 2 for axis in range(3)) == WIDTHS[family]


@pytest.mark.parametrize("family", LAYOUTS)
def test_its_positions_are_those_of_its_encoding(family: str) -> None:
    here = LAYOUTS[family]
    at = here.positions(*(2,) * len(here.letters), **({"parts": 16} if here.in_parts else {}))
    assert at.shape == (len(here.letters), 2 ** len(here.letters))
    made(family, 64).at(at)


def test_qwen_images_frames_count_up_and_its_picture_is_centred() -> None:
    at = LAYOUTS["qwen-image"].positions(2, 3, 2)
    assert at[0].tolist() == [0] * 6 + [1] * 6
    assert at[1].tolist() == [-2, -2, -1, -1, 0, 0] * 2
    assert at[2].tolist() == [-1, 0] * 6


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: LAYOUTS["pixtral"].encoding(18), "head_dim=18 must be a multiple of 4 in this layout"),
        (
            lambda: LAYOUTS["pixtral"].positions(1, 2, 3),
            r"shape=\(1, 2, 3\) has 3 numbers, but this layout has 2 axes",
        ),
        (
            lambda: LAYOUTS["dinov3"].encoding(16),
            "parts is missing, but this layout measures positions in units of",
        ),
        (
            lambda: LAYOUTS["dinov3"].positions(2, 3, parts=4),
            "parts=4 must be a multiple of the",
        ),
        (lambda: LAYOUTS["eva"].positions(2, 3, parts=4), "parts=4 must be a multiple of the"),
    ],
)
def test_what_a_family_has_not_is_refused(act, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        act()
