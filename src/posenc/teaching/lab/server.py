"""The lab's server: replies over HTTP on this machine, one computation at a time, the newest request first served.

Pages are words and controls, and need no torch. A task imports what the answers need in the background, once the
first page is out.
"""

import asyncio
import errno
import logging
import socket
import threading
import webbrowser
from collections.abc import Collection

from posenc.errors import InvalidArgument, MissingExtra
from posenc.teaching.lab.replies import HTML, Reply, computes, refused, reply

try:
    import uvicorn
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from posenc.teaching.lab.guard import HEADERS, LOOPBACK, refusal
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "starlette", "lab") from error

log = logging.getLogger("posenc.lab")

PAUSE = 0.5
"""Seconds from the first page to the import of torch, for style and script: an import may hold up everything."""


def create_app(hosts: Collection[str] = LOOPBACK, *, warm: bool = True) -> ASGIApp:
    """The lab as an ASGI application; ``warm`` imports the library in the background, soon after the first page.

    An exception is logged here and never sent.
    """
    # One reply at a time: modules that two threads import at once see each other half made.
    computing = asyncio.Lock()
    warming: asyncio.Task[None] | None = None

    async def answer(request: Request) -> Reply:
        nonlocal warming
        path, query = request.url.path, request.url.query
        if no := refusal(request, {*hosts, *LOOPBACK}):
            return no
        if not computes(path):
            answered = reply(path, query)
            if warm and warming is None and answered.media == HTML:
                warming = asyncio.create_task(warm_up())
            return answered
        async with computing:
            # Whoever left while waiting (a slider moved on) is not computed for.
            if await request.is_disconnected():
                return Reply(b"", status=499)
            return await run_in_threadpool(computed, path, query)

    async def warm_up() -> None:
        """Import what the first answers need, so that nobody waits for it at the first slider."""
        await asyncio.sleep(PAUSE)
        async with computing:
            await run_in_threadpool(computed, "/api/shift-both")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answered = await answer(request)
        except Exception:
            log.exception("%s failed", request.url.path)
            answered = refused("the lab failed to answer; its terminal says why", 500)
        headers = (
            {"content-disposition": f'attachment; filename="{answered.filename}"'} if answered.filename else {}
        )
        await Response(answered.body, answered.status, HEADERS | headers, answered.media)(scope, receive, send)

    return app


def computed(path: str, query: str = "") -> Reply:
    """A reply by one thread: pictures are too small to share out, and two threads on a busy machine wait."""
    import torch

    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)
    return reply(path, query)


def settings(hosts: Collection[str] = LOOPBACK) -> uvicorn.Config:
    """How uvicorn runs the lab: no access log, no websockets, and no proxy is believed."""
    return uvicorn.Config(
        create_app(hosts),
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        log_level="warning",
        access_log=False,
    )


def serve(host: str, port: int, *, open_page: bool) -> None:
    """Serve until interrupted; ``port=0`` takes any free one.

    Raises:
        InvalidArgument: the port is taken, the host is elsewhere, or a wildcard, which has no name to check.
    """
    if host in ("0.0.0.0", "::", ""):
        raise InvalidArgument(f"host={host!r} means every address; give the one that the lab shall answer as")
    name = f"[{host}]" if ":" in host else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # It listens from here on: who comes before the loop runs waits instead of being refused.
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            message = f"host={host!r} is no address of this computer; give one of its own, such as 127.0.0.1"
            raise InvalidArgument(message) from error
        raise InvalidArgument(f"port {port} on {host} cannot be used; choose another with --port") from error
    address = f"http://{name}:{listening.getsockname()[1]}/"
    print(f"The lab is at {address}  (Ctrl+C ends it)", flush=True)
    if open_page:
        threading.Timer(0.2, webbrowser.open, (address,)).start()
    uvicorn.Server(settings((name,))).run(sockets=[listening])
