"""constraints.txt and pyproject.toml agree: every package asked for has one version wherever the project runs."""

import tomllib
from itertools import product

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.places import ROOT

LINES = (ROOT / "constraints.txt").read_text().splitlines()
PINS = [Requirement(line) for line in LINES if not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WANTED = [
    Requirement(text)
    for part in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for text in part
]
PLACES = [
    {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": system,
        "platform_machine": chip,
    }
    | {"platform_python_implementation": "CPython", "platform_system": system.capitalize()}
    for python, (system, chip) in product(
        ("3.11", "3.12", "3.13"), (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
    )
]
"""The machines that the pins hold for."""


def pins(name: str, place: dict[str, str]) -> list[Requirement]:
    """The lines that decide this package's version on this machine."""
    named = [pin for pin in PINS if canonicalize_name(pin.name) == canonicalize_name(name)]
    return [pin for pin in named if pin.marker is None or pin.marker.evaluate(place)]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(list(place.values())[:4:2]))
def test_every_package_asked_for_has_one_pin_that_it_allows(place: dict[str, str]) -> None:
    for wanted in WANTED:
        if wanted.name == "posenc" or (wanted.marker and not wanted.marker.evaluate(place | {"extra": ""})):
            continue
        found = pins(wanted.name, place)
        assert len(found) == 1, wanted
        (version,) = [pin.version for pin in found[0].specifier]
        assert wanted.specifier.contains(version), wanted


def test_extras_of_the_project_that_are_asked_for_exist() -> None:
    asked = {extra for wanted in WANTED if wanted.name == "posenc" for extra in wanted.extras}
    assert asked <= PROJECT["optional-dependencies"].keys()


def test_triton_which_torch_brings_is_pinned_on_linux_alone() -> None:
    for requirement in PINS:
        if requirement.name == "triton":
            assert "sys_platform == 'linux'" in str(requirement.marker).replace('"', "'")


def test_every_line_is_one_that_any_pip_reads_and_the_first_names_its_command() -> None:
    assert "make constraints" in "\n".join(LINES[:2])
    for pin in PINS:
        assert not pin.extras, pin
        assert not pin.url, pin
        assert [item.operator for item in pin.specifier] == ["=="], pin
