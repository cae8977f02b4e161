"""Calls the lab's server without a network, and returns its reply to a path and a query."""

from functools import cache
from types import SimpleNamespace

from starlette.testclient import TestClient

from posenc.teaching.lab.server import create_app


@cache
def client() -> TestClient:
    return TestClient(create_app(warm=False), base_url="http://127.0.0.1:8642", raise_server_exceptions=False)


def reply(path: str, query: str = "") -> SimpleNamespace:
    """Return the body, status and headers that a browser would get."""
    got = client().get(f"{path}?{query}" if query else path)
    return SimpleNamespace(body=got.content, status=got.status_code, headers=got.headers)
