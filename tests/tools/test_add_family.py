"""The tool that adds a family puts its entry where the table is sorted by name."""

import tomllib

from tools.add_family import TABLE, inserted


def test_an_entry_is_put_at_its_place() -> None:
    text = TABLE.read_text("utf-8")
    for name, lines in (
        ("aaa", ['aaa.like = "llama"']),
        ("zzz", ['zzz.like = "llama"', 'zzz.layers = "n_layers"']),
    ):
        longer = inserted(text, name, lines)
        names = list(tomllib.loads(longer))
        assert names == sorted(names)
        assert set(names) - set(tomllib.loads(text)) == {name}
    assert inserted(text, "llama2", ['llama2.like = "llama"']).index("llama2") > text.index("llama = {}")
