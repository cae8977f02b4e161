"""Fifty sliders dragged at once: every request is answered, memory stays, and the lab still answers afterwards."""

import http.client
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

MEGABYTE = 2**20


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    reply = connection.getresponse()
    return reply.status, reply.read()


def resident() -> int:
    """Bytes of memory that this process holds, in which the lab runs."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def drag(netloc: str, seconds: float) -> int:
    """One slider: ask, wait for the answer, ask for the next value; how many answers came."""
    until, count = time.monotonic() + seconds, 0
    with closing(http.client.HTTPConnection(netloc, timeout=60)) as connection:
        while time.monotonic() < until:
            status, body = get(connection, f"/api/heatmap?first={count % 60}&second=2&width=64")
            assert (status, b'"panels"' in body) == (200, True), body[:100]
            count += 1
    return count


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
@pytest.mark.parametrize("seconds", [1.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_fifty_drags_at_once(lab: str, seconds: float) -> None:
    netloc = urlsplit(lab).netloc
    connection = http.client.HTTPConnection(netloc, timeout=60)
    for position in range(20):  # the library is read and its memory of views is full
        assert get(connection, f"/api/heatmap?first={position}&second=2&width=64")[0] == 200
    connection.close()  # an idle one is closed by the server meanwhile
    before = resident()
    with ThreadPoolExecutor(50) as pool:
        assert min(pool.map(drag, [netloc] * 50, [seconds] * 50)) >= 1  # nobody starves
    # 50 answers of about 10 kB under way with their sockets: far below what 50 views kept alive would hold.
    assert resident() - before < 100 * MEGABYTE
    connection = http.client.HTTPConnection(netloc, timeout=60)
    assert json.loads(get(connection, "/api/shift-both?m=3")[1])["readouts"][1]["text"] == "−1.100"
    connection.close()
