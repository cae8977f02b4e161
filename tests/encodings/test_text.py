"""The grammar of encodings: what parses, what comes back, and what is refused without being run."""

import sys
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import posenc
from posenc.encodings.catalogue import ModelShape as Shape
from posenc.encodings.catalogue import build, canonical
from posenc.encodings.text import Recipe, parse, split
from posenc.errors import InvalidArgument, PosencError, UnknownName

SHAPE = Shape(32, 4, 8, 64, 4)

NAMES = st.sampled_from(["rotary", "alibi", "rotary-learned", "query-scale", "their.module:Mine"])
SIMPLE = (
    st.booleans()
    | st.none()
    | st.integers(-(10**9), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["true", "false", "none", "nan"])
    | st.text(max_size=8).filter(str.isprintable)
)
VALUES = st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
SETTINGS = st.dictionaries(st.sampled_from(["base", "width", "floor", "scaling"]), VALUES, max_size=3)
PARTS = st.recursive(
    st.tuples(NAMES, SETTINGS),
    lambda part: st.tuples(
        st.sampled_from(["layers", "stack"]),
        st.lists(st.tuples(part, st.integers(1, 9)), min_size=1, max_size=3),
    ),
    max_leaves=4,
)
"""Names with settings, and compositions with parts and counts: what recipes are made of."""


def recipe_of(name: str, inside: dict | list) -> Recipe:
    if isinstance(inside, dict):
        return Recipe(name, tuple(sorted(inside.items())))
    return Recipe(name, parts=tuple((recipe_of(*part), 1 if name == "stack" else n) for part, n in inside))


@settings(max_examples=40)
@given(PARTS)
@example(("rotary", {"base": "false"}))
@example(("rotary", {"base": "\ufb00"}))  # one letter, which Python folds to two in a bare name
@example(("m:C", {"a": "it's b-c", "b": True, "c": None, "d": "None", "e": (1,)}))
def test_every_recipe_comes_back_from_its_text(parts: tuple) -> None:
    recipe = recipe_of(*parts)
    assert parse(str(recipe)) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "encoding='' must be a string"),
        ("__import__('os').system('true')", "is not the name of an encoding"),
        ("rotary.base", "'rotary.base' is not the name of an encoding"),
        ("(lambda: 1)()", "is not the name of an encoding"),
        ("rotary(base=__import__('os'))(1)", "is not the name of an encoding"),
        ("rotary(base=10**9)", r"'10 \*\* 9' is not a valid value for a setting; write a number, a name"),
        ("rotary(base=[x for x in y])", "is not a valid value for a setting"),
        ("rotary(base=f'{1}')", "is not a valid value for a setting"),
        ("rotary(base=1e999)", "more than 308 digits is not allowed"),
        ("rotary(base=-'a')", "is not a valid value for a setting"),
        ("rotary(base=b'a')", "is not a valid value for a setting"),
        ("rotary(**{})", r"\*\* is not allowed here"),
        ("rotary(base=2, base=3)", r"rotary\(base=2, base=3\) sets base twice; set it once"),
        ("rotary(scaling=yarn(factor=2, factor=8))", r"yarn\(factor=2, factor=8\) sets factor twice"),
        ("layers(local(rotary, window=3, window=500))", "sets window twice"),
        ("dca(rotary, chunk=4, chunk=8)", "sets chunk twice"),
        ("alibi*4", "is not the name of an encoding"),
        ("layers(alibi*0)", r"\* must be followed by a whole number of at least 1"),
        ("layers(alibi*1.5)", r"\* must be followed by a whole number"),
        ("stack(rotary*2)", r"\+ and \* are not allowed in stack"),
        ("stack()", "the arguments of stack must be encodings"),
        ("layers(rotary, nope)", "the arguments of layers must be one pattern"),
        ("rotary(", "cannot be parsed"),
        ("a\0b", "cannot be parsed"),
        ("(" * 5000 + ")" * 5000, "cannot be parsed"),
        ("rotary(base=" + "-" * 100_000 + "1)", "cannot be parsed|is not a valid value for a setting"),
        ("rotary(base=" + "9" * 100_000 + ")", "cannot be parsed"),
    ],
)
def test_hostile_texts_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parse(text)


@given(st.text(max_size=40))
def test_no_text_raises_anything_but_our_errors(text: str) -> None:
    with suppress(PosencError):
        parse(text)


def test_reading_a_text_imports_nothing() -> None:
    recipe = parse("stack(this_is_nowhere:Mine, rotary)")
    assert recipe.foreign == ("this_is_nowhere:Mine",)
    assert canonical(recipe) == recipe
    assert "this_is_nowhere" not in sys.modules
    with pytest.raises(InvalidArgument, match="module 'this_is_nowhere' was not found"):
        build(recipe, SHAPE)


def test_commas_inside_brackets_separate_nothing() -> None:
    assert split("t5, stack(rotary, alibi),rotary(base=1)") == [
        "t5",
        "stack(rotary, alibi)",
        "rotary(base=1)",
    ]


def test_one_canonical_recipe_for_all_that_build_the_same() -> None:
    texts = ["rope", "rotary", "rotary(base=10000)", "rotary(base=1e4, pairing=half)", "rotary(10000) "]
    assert {str(canonical(parse(text))) for text in texts[:-1]} == {"rotary"}
    assert "base=10000" in str(canonical(parse("rope"), full=True))
    assert str(canonical(parse("stack(nope, rope)"))) == "stack(nope, rotary)"
    assert str(canonical(parse("nope"), full=True)) == "nope"


def test_an_encoding_is_built_from_settings() -> None:
    made = build(parse("rotary(base=500000, rotary_dim=4)"), SHAPE)
    assert (made.base, made.rotary_dim, made.head_dim) == (500_000, 4, 8)


REFUSED = [
    ("rotary(bass=3)", {}, "unknown setting of rotary 'bass'; did you mean 'base'"),
    ("rotary(base=3)", {"base": 4}, "sets base twice"),
    ("alibi(slopes=(1, 0))", {}, r"slopes=\(1, 0\) must be a list of 4 finite numbers"),
    ("stack(rotary, alibi)", {"base": 4}, "cannot be set outside stack"),
    ("t5(two_sided=no)", {}, "two_sided='no' must be True or False"),  # as a word it would count as yes
    ("t5(shared=1)", {}, "shared=1 must be True or False"),
    ("t5(buckets=many)", {}, "buckets='many' must be an integer"),
    ("t5(std=(1, 2))", {}, r"std=\(1, 2\) must be a number"),
    ("alibi(max_exponent=True)", {}, "max_exponent=True must be a number"),
]


@pytest.mark.parametrize(("text", "settings", "message"), REFUSED)
def test_settings_of_another_name_or_type_are_refused(text: str, settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        posenc.encoding(text, heads=4, head_dim=8, **settings)


@pytest.mark.parametrize("text", ["nope(args=1)", "nope(kwargs=1)", "t5(bukets=3)"])
def test_a_setting_that_a_class_does_not_take_has_no_canonical_text(text: str) -> None:
    with pytest.raises(UnknownName, match="unknown setting of"):
        canonical(parse(text))


@pytest.mark.parametrize("written", ["False", "false"])
def test_yes_and_no_are_written_as_in_python_or_in_toml(written: str) -> None:
    assert not build(parse(f"t5(two_sided={written})"), SHAPE).two_sided
    assert str(canonical(parse(f"t5(shared={written})"))) == "t5(shared=False)"
