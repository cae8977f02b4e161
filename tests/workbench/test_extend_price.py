"""A method at several factors on the same documents: what each costs at each length."""

import json
from pathlib import Path

import pytest

from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling import Default, Linear, YaRN
from posenc.workbench.extend.methods import methods
from posenc.workbench.report.extension import write
from posenc.workbench.report.price import prices
from support.extensions import made

FOUND = made(
    **{
        "none": [2, 2, 5, 5, 6, 6],
        "yarn(2)": [2.1, 2.2, 2, 2, 4, 5],
        "yarn(3)": [2.3, 2.2, 2.2, 2.2, 2.4, 2],
        "ntk(2)": [2, 2, 3, 3, 3, 3],
        "linear": [3, 3, 3, 3, 3, 3],
        "window": [2.5],
    }
)


def test_each_factor_at_each_length_beside_the_lowest() -> None:
    """Columns are the positions 0-7, 8-15, 16-31 and 32-47; the documents' own spread cancels."""
    yarn, ntk = prices(FOUND)
    assert yarn.lengths == (8, 16, 32, 48)
    assert yarn.labels == ("no scaling", "YaRN × 2", "YaRN × 3")
    assert [pytest.approx(row) for row in yarn.losses] == [[2, 2, 5, 6], [2.1, 2.2, 2, 4.5], [2.3, 2.2, 2.2, 2.2]]
    assert [[gap.mean for gap in row] for row in yarn.to_lowest] == [
        pytest.approx([0, 0, 3, 3.8]),
        pytest.approx([0.1, 0.2, 0, 2.3]),
        pytest.approx([0.3, 0.2, 0.2, 0]),
    ]
    assert yarn.to_lowest[1][0].high == pytest.approx(0.1)
    assert yarn.sentence == (
        "Lowest loss at each length: no scaling up to 16, then YaRN × 2 up to 32, then YaRN × 3 up to 48."
    )
    assert ntk.labels == ("no scaling", "NTK × 2")


def test_page_and_json_have_it_where_factors_were_measured(tmp_path: Path) -> None:
    page = write(FOUND, tmp_path, "posenc extend x --price yarn", 3.0, None).read_text()
    assert "Price of yarn: factor by length" in page
    assert "+0.100, 0.100 … 0.100" in page
    price = json.loads((tmp_path / "extension.json").read_text())["price"][0]
    assert (price["method"], price["lengths"]) == ("yarn", [8, 16, 32, 48])
    assert price["factors"]["YaRN × 2"]["losses"] == pytest.approx([2.1, 2.2, 2, 4.5])
    plain = made(none=[2, 2, 5, 5, 6, 6], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    assert "Price of" not in write(plain, tmp_path, "posenc extend x", 3.0, None).read_text()


def test_names_with_a_factor() -> None:
    found = methods(("linear", "yarn(*)"), Default(), 4096, 6.0)
    assert [(m.name, m.label) for m in found[2:]] == [
        ("yarn(2)", "YaRN × 2"),
        ("yarn(4)", "YaRN × 4"),
        ("yarn(6)", "YaRN × 6"),
    ]
    assert [m.scaling for m in found[1:3]] == [Linear(6), YaRN(2, 4096)]
    assert methods(("self-extend(2)",), Default(), 64, 8.0)[1].remap == "self-extend(rotary, group=3, window=16)"
    for name in ("own(2)", "yarn()", "yarn(2", "yarn(x)"):
        with pytest.raises(InvalidArgument, match="must be a name, with a factor where it has one, as yarn"):
            methods((name,), Default(), 4096, 6.0)
    with pytest.raises(UnknownName, match="unknown method 'yarm'; did you mean 'yarn'"):
        methods(("yarm(2)",), Default(), 4096, 6.0)
    with pytest.raises(InvalidArgument, match="none twice"):
        methods(("yarn(2)", "yarn(*)"), Default(), 4096, 6.0)
