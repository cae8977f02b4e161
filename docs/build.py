"""The parts of the site that are computed when it is built: figures from views, and tables from the library."""

import json
import re
import tomllib
from cmath import exp
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from latex2mathml.converter import convert
from tools.pages import results, settings, shipped_encodings
from tools.pages.models import Model, table

import posenc.workbench
from posenc import CATALOGUE, Encoding
from posenc.integrations import position_table
from posenc.integrations.huggingface import read
from posenc.integrations.inspection import describe
from posenc.integrations.model_files import Departure, departures
from posenc.integrations.program_names import NAMES as PROGRAMS
from posenc.integrations.vectors import vectors
from posenc.pictures.draw import draw, rendered
from posenc.pictures.palette import DARK, LIGHT
from posenc.scaling import Default
from posenc.teaching.claims.properties import measured
from posenc.teaching.claims.rotary import plane_score
from posenc.teaching.lab.rooms import ROOMS, find
from posenc.teaching.three_panels import three_panels
from posenc.teaching.views.catalogue import VIEWS, make
from posenc.teaching.views.four import NAMES, four
from posenc.teaching.views.rotation import STEPS
from tools import walk_page

HERE = Path(__file__).parent
README = HERE.parent / "README.md"

PICTURES = {
    "added-sandwich": ("added", {"encoding": "sandwich"}),
    "added-fire": ("added", {"encoding": "fire(nearest=64)"}),
    "score-random": ("score", {"content": "random"}),
    **{
        f"attention-{name}": ("attention", {"encoding": name, "causal": "true"})
        for name in CATALOGUE
        if (HERE / "encodings" / f"{name}.md").exists()
    },
}
"""The views with settings other than the defaults, which pages need."""

STANDARD = {f"standard-{task}": task for task in ("language", "ordering", "needle", "recent")}
"""The curves of the study whose ledger is in ``docs/standard``."""


def on_config(config: Any) -> None:
    """List the pages of these folders in the navigation: encodings in the catalogue's order, then other pages."""
    order = list(CATALOGUE)
    for title, folder in {"Encodings": "encodings", "Contributing": "contributing"}.items():
        names = [path.stem for path in sorted((HERE / folder).glob("*.md"))]
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
        for entries in (config.nav, *(pages for tab in config.nav for pages in tab.values())):
            for entry in entries:
                if title in entry:
                    entry[title] = [f"{folder}/{name}.md" for name in names]


def on_files(files: Any, config: Any) -> Any:
    """Add every view as ``figures/<name>.svg``, the lesson's three panels as a picture, and reference vectors."""
    from mkdocs.structure.files import File

    pages = "".join(page.read_text(encoding="utf-8") for page in HERE.rglob("*.md"))
    wanted = set(re.findall(r"figures/([\w-]+)\.svg", pages))
    standard = posenc.workbench.open(HERE / "standard")
    views = {name: view() for name, view in VIEWS.items()}
    views |= {name: make(view, settings) for name, (view, settings) in PICTURES.items() if name in wanted}
    views |= {name: standard.over_lengths(task).view for name, task in STANDARD.items()}
    for name, view in views.items():
        for ending, paper in (("", LIGHT), ("-dark", DARK)):
            picture = rendered(draw(view, paper))
            files.append(File.generated(config, f"figures/{name}{ending}.svg", content=picture))
    with TemporaryDirectory() as folder:
        for name, model in published().items():
            file = vectors(read(model["config"]), source=model["source"]).save(Path(folder) / "rope.json")
            files.append(File.generated(config, f"vectors/{name}.json", content=file.read_text("utf-8")))
    lesson = rendered(three_panels(), "png")
    files.append(File.generated(config, "figures/positional_encoding_viz.png", content=lesson))
    return files


BOOSTS = {"api": 0.4, "claims": 0.4, "contributing/": 0.3, "gallery": 0.2, "lessons": 0.4, "questions": 0.6}
"""The factor of reference pages' scores in search, so that guides come first."""


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Rank reference pages below guides in search."""
    boost = next((boost for name, boost in BOOSTS.items() if page.file.src_uri.startswith(name)), 1.0)
    page.meta.setdefault("search", {"boost": boost})
    return html


def on_post_build(config: Any) -> None:
    """Write the index of the search as a script too, which a page opened from a file may load."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text("utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index};\n", "utf-8")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in computed parts, and give every figure a version for dark paper; the theme shows one version."""
    markdown = markdown.replace(INCOMPLETE, "")
    for marker, table_text in COMPUTED.items():
        if marker in markdown:
            markdown = markdown.replace(marker, table_text())
    markdown = STAGE.sub(_opened, results.filled(markdown))
    markdown = FORMULA.sub(lambda match: formula(match[1]), markdown)
    return FIGURE.sub(r"![\1](\2.svg#only-light)![\1](\2-dark.svg#only-dark)", markdown)


INCOMPLETE = "*`make docs` generates the missing parts.*\n"
"""The note of pages with computed parts, for readers of the files."""

STAGE = re.compile(r"`/(\w+)#([\w-]+)`")
"""The pattern of the address of a stage of the lab in pages."""


def _opened(match: re.Match[str]) -> str:
    """Return a link to the stage in the lab that is exported with the site."""
    name, question = match.groups()
    return f'<a href="lab/{name}.html#{question}">{find(question).heading}</a>'


FORMULA = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
"""The pattern of the formulas of a page in TeX, one per line."""


def formula(lines: str) -> str:
    """Return the formulas as MathML, which browsers show and read aloud without a script."""
    rows = "".join(f"<div>{convert(line, display='block')}</div>" for line in lines.splitlines())
    return f'<div class="formula" tabindex="0" role="group" aria-label="formula">{rows}</div>'


FIGURE = re.compile(r"!\[([^\]]*)\]\(((?:\.\./)*figures/[\w-]+)\.svg\)")
"""The pattern of a figure in a page: its text, and its address without the suffix."""


def properties() -> str:
    """Return the table of measured properties of the catalogue."""
    names = (
        "encoding",
        "acts on",
        "parameters",
        "last position",
        "scores depend only on offsets",
        "shows order without a mask",
    )
    head = f"| {' | '.join(names)} |\n{'| --- ' * len(names)}|\n"
    rows = []
    for name in CATALOGUE:
        p = measured(name)
        far = "2³¹ − 1" if p.last_position == 2**31 - 1 else str(p.last_position)
        cells = [
            name,
            p.acts_on,
            f"{p.parameters:,}".replace(",", "\u202f"),
            far,
            _yes(p.offset_only),
            _yes(p.orders),
        ]
        rows.append(f"| {' | '.join(cells)} |\n")
    return head + "".join(rows)


def four_properties() -> str:
    """Return a table of the four properties of every encoding, with the measured numbers."""
    rows = [f"| encoding | {' | '.join(NAMES)} |", "| --- " * (1 + len(NAMES)) + "|"]
    for row in map(four, CATALOGUE):
        numbers = row.closest, row.growth, row.trend, row.unseen
        cells = (f"{_yes(has)} ({_short(x)})" for has, x in zip(row.has, numbers, strict=True))
        rows.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _short(value: float) -> str:
    return f"{value:.2g}".replace("-", "−").replace("inf", "∞")


def models() -> str:
    """Return the table of released models with computed columns."""
    with (HERE / "models.toml").open("rb") as file:
        return table([Model(name, **facts) for name, facts in tomllib.load(file).items()])


def long_contexts() -> str:
    """Return a table of how released models read long texts, computed from their configs."""
    lines = map(json.loads, (HERE.parent / "tests/data/published_configs.jsonl").read_text().splitlines())
    configs = {line["name"]: line["config"] for line in lines}
    rows = [
        "| model | base | length before scaling | reads | method | windows and layers | tuned on |",
        "| --- " * 7 + "|",
    ]
    for name, facts in tomllib.loads((HERE / "long.toml").read_text()).items():
        positions = read(configs[name])
        recipe, kinds = positions.rotary, list(positions.layer_types)
        still = [kind for kind, one in positions.recipes.items() if kind not in positions.rotary_recipes]
        windows = [window for window in positions.windows if window and window < positions.max_length]
        rotating = len(kinds) - sum(map(kinds.count, still))
        layers = [f"{len(windows)} of {len(kinds)} see {max(windows):,} tokens"] if windows else []
        if positions.chunk:
            layers.append(f"{rotating} of {len(kinds)} see chunks of {positions.chunk:,} tokens")
        if still:
            layers.append(f"{len(kinds) - rotating} of {len(kinds)} do not rotate")
        scaling = recipe.get("scaling")
        method = "the base" if scaling == Default() else describe(scaling)
        cells = [name, f"{recipe.get('base'):,.0f}", f"{positions.original_length:,}", f"{positions.max_length:,}"]
        tuned = f"{facts['tuned']} ({facts['source']})" if facts else ""
        rows.append(f"| {' | '.join([*cells, method, '; '.join(layers), tuned])} |")
    return "\n".join(rows) + "\n"


def rooms() -> str:
    """Return the rooms of the lab as table rows."""
    return "\n".join(f"| {room.short} | {room.title} |" for room in ROOMS)


def quick() -> str:
    """Return the table of the quick study from README."""
    return re.search(r"```\nlanguage: .*?```", README.read_text("utf-8"), re.DOTALL)[0]  # type: ignore[index]


def classes() -> str:
    """Return every public encoding for the API reference: its class, and its methods with docstrings."""
    names = (name for name in posenc.__all__ if isinstance(getattr(posenc, name), type))
    shown = [name for name in names if issubclass(getattr(posenc, name), Encoding) and name != "Encoding"]
    return "\n".join(f"::: posenc.{name}\n    options:\n      members: true\n" for name in shown)


def programs() -> str:
    """Return every program for the API reference, with the classes of its file."""
    lines = []
    for name in PROGRAMS:
        module = import_module(f"posenc.integrations.programs.{name}")
        defined = [k for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
        functions = [k for k in ("read", "change", "spell", "write") if k in defined]
        members = [*functions, *(k for k in defined if isinstance(getattr(module, k), type))]
        lines.append(f"::: {module.__name__}\n    options:\n      members: [{', '.join(members)}]\n")
    return "\n".join(lines)


def departed() -> str:
    """Return a table of what model files of programs do and configs do not say."""
    lines = ["| program | families | if | what it does | line |", "| --- | --- | --- | --- | --- |"]
    for one in departures():
        title = import_module(f"posenc.integrations.programs.{one.program}").PROGRAM.title
        where = f" {', '.join(one.releases)}" if one.releases else ""
        families = "all" if one.types == ("*",) else ", ".join(one.types)
        except_for = f" but {', '.join(one.but)}" if one.but else ""
        says = f"does not run them: {one.says}" if one.refuses else one.says
        lines.append(f"| {title}{where} | {families}{except_for} | {conditions(one)} | {says} | `{one.line}` |")
    return "\n".join(lines)


def conditions(one: Departure) -> str:
    """Return in words which configs and inputs a deviation is limited to."""
    value = "has a value" if one.equals is None else f"is {one.equals}"
    said = [f"the rope type is {' or '.join(one.kinds)}"] if one.kinds else []
    said += [f"`{key}` {value}" for key in one.given.split()]
    said += [f"`{key}` is missing" for key in one.unless]
    said += [f"{' or '.join(f'`{key}`' for key in one.null.split())} is null"] if one.null else []
    said += [f"`{one.number}` is an integer"] if one.number else []
    said += ["some layers have a window and others none"] if one.mixed else []
    said += [f"inputs have at most {one.up_to:,} tokens"] if one.up_to else []
    return " and ".join(said)


def published() -> dict[str, Any]:
    """Return the published configs with their sources."""
    return dict(json.loads((HERE.parent / "tests" / "data" / "published.json").read_text("utf-8")))


def published_vectors() -> str:
    """Return every published model with its vectors, the scaling of its layer types, and its source."""
    rows = ["| model and file | rotation by layer type | config |", "| --- | --- | --- |"]
    for name, model in published().items():
        source = model["source"]
        table = position_table.of(read(model["config"]))
        layers = "; ".join(
            f"{kind}: base {layer.base:,.0f}, {layer.scaling}, {layer.rotary_dim} of {layer.head_dim} channels"
            for kind, layer in table.layers.items()
            if layer.frequencies
        )
        place = f"[{source['repository']}](https://github.com/{source['repository']}/blob/{source['commit']}/{source['path']})"
        rows.append(f"| [{name}](vectors/{name}.json) | {layers} | {place} at {source['commit'][:7]} |")
    return "\n".join(rows)


def cells() -> str:
    """Return tables of the tested scalings of models by program, with reasons below each table."""
    recorded = json.loads((HERE.parent / "tests" / "data" / "cells.json").read_text("utf-8"))
    lines = []
    for program, by_scaling in recorded.items():
        models = list(dict.fromkeys(model for row in by_scaling.values() for model in row))
        outcomes = [outcome for row in by_scaling.values() for outcome in row.values()]
        reasons = list(
            dict.fromkeys(one.removeprefix("refused: ") for one in outcomes if one.startswith("refused"))
        )
        numbers = {f"refused: {reason}": f"refused ({n})" for n, reason in enumerate(reasons, 1)}
        lines += [f"### {program}", "", f"| scaling | {' | '.join(models)} |", f"| --- |{' --- |' * len(models)}"]
        lines += [
            f"| {name} | {' | '.join(numbers.get(row.get(m, ''), row.get(m, '')) for m in models)} |"
            for name, row in by_scaling.items()
        ]
        lines += ["", *(f"{n}. {reason}" for n, reason in enumerate(reasons, 1)), ""]
    return "\n".join(lines)


def gallery() -> str:
    """Return every figure with its title and the command that draws it."""
    return "\n\n".join(
        f"## {view().title}\n\n![{view().title}](figures/{name}.svg)\n\n`posenc show {name}`"
        for name, view in VIEWS.items()
    )


def arrows() -> str:
    """Return the picture of the home page: two words on two arrows, the arc between them, and their score."""
    turn = 2 * float(STEPS["eighth"])  # the second word stands two positions further
    tips = {"dog": complex(1.5, 0.5), "man": complex(0.8, 1.0) * exp(1j * turn)}  # the widget's q and k
    marks = []
    for word, tip in tips.items():
        end, label = tip * 78, tip * 78 + tip / abs(tip) * 28
        marks.append(
            f'<line class="{word}" x2="{end.real:.2f}" y2="{-end.imag:.2f}" marker-end="url(#{word}-tip)"/>'
            f'<text class="{word}" x="{label.real:.2f}" y="{-label.imag:.2f}">{word}</text>'
        )
    first, last = (tip / abs(tip) * 40 for tip in tips.values())
    arc = f"M{first.real:.2f} {-first.imag:.2f}A40 40 0 0 0 {last.real:.2f} {-last.imag:.2f}"
    score = f"{plane_score(0, 2):.3f}".replace("-", "−")
    return HOME.read_text("utf-8").format(arrows="".join(marks), arc=arc, score=score)


HOME = HERE / "assets" / "arrows.svg.html"

COMPUTED = {
    "<!-- arrows -->": arrows,
    "<!-- classes -->": classes,
    "<!-- programs -->": programs,
    "<!-- departures -->": departed,
    "<!-- gallery -->": gallery,
    "<!-- properties -->": properties,
    "<!-- four -->": four_properties,
    "<!-- encodings -->": shipped_encodings,
    "<!-- models -->": models,
    "<!-- long -->": long_contexts,
    "<!-- vectors -->": published_vectors,
    "<!-- cells -->": cells,
    "<!-- rooms -->": rooms,
    "<!-- quick -->": quick,
    "<!-- presets -->": settings.presets,
    "<!-- settings -->": settings.settings,
    "<!-- walk -->": lambda: walk_page.page(walk_page.kept()),
}
"""The replacement of each mark in a page."""


def _yes(value: bool) -> str:
    return "yes" if value else "no"
