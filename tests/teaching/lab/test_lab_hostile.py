"""What somebody puts into a link is read as a value: it becomes no code, no markup and no name of a file."""

import ast
import json
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from posenc.errors import PosencError
from posenc.integrations import huggingface
from posenc.teaching.lab.controls import Control
from posenc.teaching.lab.model import layers
from posenc.teaching.lab.page import LIVE, Site, room_page
from posenc.teaching.lab.rooms import BY_QUESTION, Stage
from support.lab import reply

HOSTILE = (
    "'''))\nimport os; os.system('true') #",
    '""")\nimport os #',
    "' + __import__('os').name + '",
    '"><script>alert(1)</script>',
    "__import__('os').name x",
    "{config} {0} %s ${x} $\\frac$",
    "../../etc/passwd x",
    "'a 'b' ’c’",
    "\\ \\' \\\\ \\N{DIGIT ONE}",
    "\x00\u2028\ud800 \u202e",
)

TYPED = [
    pytest.param(
        stage,
        control,
        id=f"{stage.question}-{control.name}",
        marks=pytest.mark.slow if stage.view.startswith("lab.trained:") else (),
    )
    for _, stage in BY_QUESTION.values()
    for control in stage.controls
    if control.kind in ("text", "pasted", "arrangement")
]
"""Every input into which somebody types what no list holds; the others turn all but their own words away."""


def texts(control: Control) -> list[str]:
    """Hostile texts, and such as this input may take."""
    if control.kind != "pasted" or not control.default:
        return [*HOSTILE, *(f"{control.default} {text}" for text in HOSTILE)]
    config = json.loads(control.default)
    odd = [config | {"_name_or_path": text, text: [text, {text: text}]} for text in HOSTILE]
    return [*HOSTILE, *map(json.dumps, odd)]


def shape(python: str) -> str:
    """The program without its literals."""

    class Blank(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            try:
                ast.literal_eval(node)
            except ValueError:
                return super().generic_visit(node)
            return ast.Constant(0)

    return ast.dump(Blank().visit(ast.parse(python)))


@pytest.mark.parametrize(("stage", "control"), TYPED)
def test_only_literals_of_the_copied_python_come_from_a_link(stage: Stage, control: Control) -> None:
    want = shape(stage.answer({}).python)
    answered = 0
    for text in texts(control):
        got = reply(f"/api/{stage.question}", urlencode({control.name: text}, errors="surrogatepass"))
        assert got.status in (200, 400), text
        if got.status == 200:
            answered += 1
            assert shape(json.loads(got.body)["python"]) == want, text
    assert answered or control.kind == "arrangement"


LISTED = [
    pytest.param(stage, control.name, id=f"{stage.question}-{control.name}")
    for _, stage in BY_QUESTION.values()
    for control in stage.controls
    if control.kind in ("number", "choice", "switch")
]


@pytest.mark.parametrize(("stage", "name"), LISTED)
def test_every_other_input_turns_hostile_texts_away(stage: Stage, name: str) -> None:
    for text in HOSTILE:
        with pytest.raises(PosencError):
            pytest.fail(f"{name} takes {text!r}: {stage.answer({name: text}).title}")


class Elements(HTMLParser):
    """The elements and attributes of a page, but not what they say."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.met: list[tuple[str, list[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.met.append((tag, [name for name, _ in attributes]))


@pytest.mark.parametrize(("stage", "control"), TYPED)
def test_a_page_has_the_same_elements_whatever_a_link_says(stage: Stage, control: Control) -> None:
    room = replace(BY_QUESTION[stage.question][0], stages=(stage,))
    text = " ".join(HOSTILE[:-1])  # the last is no text that a page can be asked for with
    for site in (LIVE, Site(saved=True)):
        plain, odd = (room_page(room, given, site) for given in ({}, {control.name: text}))
        assert Elements(odd).met == Elements(plain).met


def test_a_saved_table_holds_no_code_of_a_link() -> None:
    (control,) = BY_QUESTION["layers"][1].controls
    config = json.loads(control.default) | dict.fromkeys(HOSTILE[:-1], " ".join(HOSTILE[:-1]))
    got = reply("/export/layers.csv", urlencode({control.name: json.dumps(config)}))
    assert (got.status, got.headers["content-disposition"]) == (200, 'attachment; filename="posenc-layers.csv"')
    assert b"alert" not in got.body


@pytest.mark.parametrize("name", ["bias%0d%0a.csv", "../bias.csv", 'bias".csv', "bias%0d%0ax.csv"])
def test_no_text_of_a_link_names_a_file(name: str) -> None:
    got = reply(f"/export/{name}")
    assert got.status in (400, 404)
    assert "content-disposition" not in got.headers


@pytest.mark.parametrize("config", ["[" * 3000, "1" * 8000, "{", "[]", "NaN"], ids=lambda text: text[:3])
def test_a_config_that_cannot_be_read_is_refused_in_words(config: str) -> None:
    got = reply("/api/layers", urlencode({"config": config}))
    assert got.status == 400
    assert "paste a model's" in json.loads(got.body)["error"]


def test_the_check_of_snippets_can_fail() -> None:
    assert shape("print(json.loads('1'))") == shape("print(json.loads('[\"a\"]'))")
    assert shape("print([1, 2])") == shape("print(['a'])")
    assert shape("print(1)") != shape("print(1, x)") != shape("print(1, x())")


def test_the_python_of_a_config_reads_that_config(capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "model_type": "llama",
        "_name_or_path": "it's \"\"\" ''' \\ ü {x}",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "rope_theta": 1e4,
    }
    exec(layers(json.dumps(config)).python, {})
    want = huggingface.read(config)
    assert capsys.readouterr().out == f"{want.recipes} {want.layer_types} {want.windows}\n"
