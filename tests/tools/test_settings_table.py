"""The tables of presets and settings in the guide are those that are declared."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_guide_has_every_setting_as_it_is_declared() -> None:
    spec = importlib.util.spec_from_file_location("settings_table", ROOT / "tools" / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    text = tool.PAGE.read_text(encoding="utf-8")
    assert tool.page(text) == text, "python tools/settings.py writes it"
