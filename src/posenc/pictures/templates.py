"""Page templates, which escape inserted text and raise an error for an unknown name."""

from functools import cache

from posenc.errors import MissingExtra

try:
    import jinja2
except ModuleNotFoundError as error:
    raise MissingExtra("jinja2", "plot") from error


@cache
def templates(package: str) -> jinja2.Environment:
    """Return the templates of a package and of ``posenc.pictures``, built once, so that their globals persist."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in (package, "posenc.pictures")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
