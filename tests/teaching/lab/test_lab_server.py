"""The server: pages, answers and exports; hosts, origins and errors kept where they belong."""

import socket
import threading
import time

import anyio.from_thread
import pytest
from starlette.responses import Response
from starlette.testclient import TestClient

from posenc.errors import InvalidArgument
from posenc.teaching.lab import server
from posenc.teaching.lab.rooms import ROOMS
from posenc.teaching.lab.server import create_app, serve
from support.lab import client


@pytest.mark.parametrize("path", ["/", "/check", "/lessons", "/claims", *(f"/{room.name}" for room in ROOMS)])
def test_pages(path: str) -> None:
    reply = client().get(path)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert " style=" not in reply.text
    assert " onclick" not in reply.text
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_an_answer_is_the_librarys() -> None:
    answer = client().get("/api/shift-both?m=3").json()
    assert {r["name"]: r["text"] for r in answer["readouts"]} == {
        "unrotated q·k": "1.700",
        "score (rotated q·k)": "−1.100",
        "reference, m = 0": "−1.100",
        "angle of either arc": "123°",
    }
    at = client().get("/api/heatmap/at?width=8&panel=0&row=1&column=1").json()
    assert at == {"text": "dimension 1, position 1: 0.540302"}
    assert client().get("/api/shift-both/table").json()[0]["head"] == ["vector", "x", "y"]
    assert "shift-both" in client().get("/api/").json()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/weights?some=1000000000", 400, "heads=1000000000 must be between 1 and 16"),
        ("/api/heatmap?width=100000000000000", 400, "unknown width"),
        ("/api/weights?soem=4", 400, "did you mean 'some'"),
        ("/api/weights?some=4&some=5", 400, "some is given twice"),
        ("/api/weihgts", 400, "did you mean 'weights'"),
        ("/api/weights/everything", 404, "Not Found"),
        ("/api/weights/at?row=-1", 400, "must be an index, counted from 0"),
        ("/api/shuffle?sentence=a+b+c+d", 400, "is not an arrangement of 4 words"),
        ("/export/weights.exe", 404, "Not Found"),
        ("/nowhere", 404, "nowhere is not a page of the lab"),
        ("/static/../server.py", 404, "error"),
    ],
)
def test_refusals_are_short_json(path: str, status: int, words: str) -> None:
    reply = client().get(path)
    assert reply.status_code == status
    assert words in reply.text
    assert list(reply.json()) == ["error"]
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8642"},
        {"host": "127.0.0.1.evil.example"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
    ],
)
def test_foreign_hosts_and_origins_get_nothing(headers: dict[str, str]) -> None:
    reply = client().get("/api/shift-both", headers=headers)
    assert reply.status_code == 403
    assert "readouts" not in reply.text


CROSS_SITE = {"sec-fetch-site": "cross-site"}
COMPUTED = ("/api", "/api/", "/api/weights", "/export", "/export/weights.csv")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        *((path, CROSS_SITE, 403) for path in COMPUTED),
        ("/rotation", CROSS_SITE, 200),  # a link to it
        ("/api/weights", {"origin": "http://127.0.0.1:8642"}, 200),
        ("/api/weights", {"host": "localhost:8642"}, 200),
    ],
)
def test_another_sites_script_is_refused_and_our_own_is_not(
    path: str, headers: dict[str, str], status: int
) -> None:
    got = client().get(path, headers=headers)
    assert (got.status_code, "from another site" in got.text) == (status, status == 403)


def test_an_exception_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(part: str, name: str, texts: dict[str, str]) -> None:
        raise RuntimeError("secret detail at /home/someone")

    monkeypatch.setattr("posenc.teaching.lab.server.computed", broken)
    reply = client().get("/api/weights")
    assert reply.status_code == 500
    assert reply.json() == {"error": "the lab failed to answer; its terminal says why"}


def test_exports_are_whole_files() -> None:
    table = client().get("/export/bias.csv")
    assert table.text.startswith("Each head lowers")
    assert table.headers["content-disposition"] == 'attachment; filename="posenc-bias.csv"'


@pytest.mark.parametrize(
    ("host", "said"), [("0.0.0.0", "means every address"), ("192.0.2.1", "is not an address of this computer")]
)
def test_a_host_that_is_not_this_computers_is_refused(host: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"host='{host}' {said}"):
        serve(host, 0, open_page=False)


def test_a_taken_port_is_refused_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgument, match=f"port {port} on 127.0.0.1 cannot be used; choose another"):
            serve("127.0.0.1", port, open_page=False)


def test_the_library_is_imported_once_the_first_page_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Semaphore(0)
    monkeypatch.setattr(server, "computed", lambda part, name, texts: started.release())
    monkeypatch.setattr(server, "PAUSE", 0)
    own = TestClient(create_app(), base_url="http://127.0.0.1:8642")
    with anyio.from_thread.start_blocking_portal() as own.portal:  # one loop, which stays
        own.get("/static/lab.js")
        assert not started.acquire(blocking=False)
        own.get("/")
        assert started.acquire(timeout=60)
        own.get("/order")
    assert not started.acquire(blocking=False)


def test_the_warm_up_and_the_first_question_import_the_library_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two threads that import it at once meet modules that are half made."""
    inside, most, done = [], [], threading.Semaphore(0)

    def slow(part: str, name: str, texts: dict[str, str]) -> Response:
        inside.append(name)
        most.append(len(inside))
        time.sleep(0.05)
        inside.remove(name)
        done.release()
        return Response()

    monkeypatch.setattr(server, "computed", slow)
    monkeypatch.setattr(server, "PAUSE", 0)
    own = TestClient(create_app(), base_url="http://127.0.0.1:8642")
    with anyio.from_thread.start_blocking_portal() as own.portal:
        own.get("/")
        own.get("/api/shuffle")
        assert all(done.acquire(timeout=60) for _ in range(2))
    assert most == [1, 1]
