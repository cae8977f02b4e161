"""The server of the lab, which computes one answer at a time and skips requests that were cancelled while
waiting.

Pages do not need torch. After the first page is served, a background task imports what is needed to compute
answers. Requests that name another host, come from another site's page or use an unsupported method are refused.
"""

import asyncio
import errno
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from posenc.errors import InvalidArgument, MissingExtra, PosencError
from posenc.pictures.colours import stylesheet
from posenc.teaching.lab import page, rooms
from posenc.teaching.lab.controls import pairs

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "starlette", "lab") from error

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
STATIC = ("posenc.pictures", "posenc.teaching.lab")
"""The packages whose ``static`` folders are served together."""
PAUSE = 0.5
"""The seconds between the first page and the import of torch, so that style and script are served first."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def refused(words: str, status: int) -> JSONResponse:
    """Return the response to a refused request, with the reason."""
    return JSONResponse({"error": words}, status)


class Guard:
    """Accepts only requests that come from the lab's own pages and whose Host header names one of ``hosts``.

    A foreign Host header means that another name resolves to this machine (DNS rebinding); a foreign Origin means a
    request from another site's script. Both are refused.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        host, ours = request.headers.get("host", ""), f"http://{request.headers.get('host', '')}"
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        asks = request.url.path.startswith(("/api", "/export"))
        crossing = request.headers.get("sec-fetch-site") == "cross-site" and asks
        answer: ASGIApp = self.app
        if name not in self.hosts:
            answer = refused(f"the lab only answers requests to {', '.join(sorted(self.hosts))}", 403)
        elif crossing or request.headers.get("origin", ours) != ours:
            answer = refused("the lab only answers its own pages; this request came from another site", 403)

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await answer(scope, receive, headed)


def create_app(hosts: Collection[str] = LOOPBACK, *, warm: bool = True) -> Starlette:
    """Return the lab as an ASGI application.

    With ``warm``, the application imports the library in the background soon after it serves the first page.
    """
    # One answer at a time: two threads that import the same modules see them incomplete.
    computing = asyncio.Lock()
    warming: list[asyncio.Task[None]] = []

    async def warm_up() -> None:
        """Import the modules that the first answers need, so that readers do not wait for these imports."""
        await asyncio.sleep(PAUSE)
        async with computing:
            await run_in_threadpool(computed, "picture", "shift-both", {})

    def shown(make: Callable[[Request], str]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if warm and not warming:
                warming.append(asyncio.create_task(warm_up()))
            return HTMLResponse(make(request))

        return endpoint

    def asked(part: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            name, texts = request.path_params.get("name", ""), pairs(request.url.query)
            async with computing:
                # Requests that were cancelled while waiting (a slider moved on) are skipped.
                if await request.is_disconnected():
                    return Response(status_code=499)
                return await run_in_threadpool(computed, part, name, texts)

        return endpoint

    return Starlette(
        routes=[
            Route("/", shown(lambda _: page.home())),
            Route(f"/{page.CARDS}", shown(lambda _: page.cards())),
            Route(f"/{page.CLAIMS}", shown(lambda _: page.claims())),
            Route(f"/{page.PATHS}", shown(lambda _: page.paths())),
            Route("/colours.css", lambda _: Response(stylesheet(), media_type="text/css")),
            Mount("/static", StaticFiles(packages=[(name, "static") for name in STATIC])),
            Route("/api/", asked("index")),
            Route("/api/quiz", asked("quiz")),
            Route("/api/claim/{name}", asked("claim")),
            Route("/api/{name}", asked("picture")),
            Route("/api/{name}/table", asked("table")),
            Route("/api/{name}/at", asked("at")),
            Route("/export/{name}.csv", asked("csv")),
            Route("/{name}", shown(_room)),
        ],
        middleware=[Middleware(Guard, hosts={*hosts, *LOOPBACK})],
        exception_handlers={
            PosencError: lambda _, error: refused(str(error), 400),
            HTTPException: lambda _, error: refused(error.detail, error.status_code),
            Exception: lambda _, error: refused("the lab failed to answer; its terminal says why", 500),
        },
    )


def _room(request: Request) -> str:
    name, texts = request.path_params["name"], pairs(request.url.query)
    if name not in rooms.BY_NAME:
        raise HTTPException(404, f"{name[:40]} is not a page of the lab; open / for the list of rooms")
    texts.pop("embed", None)
    return page.room_page(rooms.BY_NAME[name], texts)


def computed(part: str, name: str, texts: dict[str, str]) -> Response:
    """Compute an answer on one thread, because pictures are too small to benefit from several threads."""
    import torch

    from posenc.pictures import tables, wire
    from posenc.teaching.lab import answers
    from posenc.teaching.lessons import deck

    torch.set_num_threads(1)
    if part == "csv":
        return Response(
            tables.as_csv(answers.view(name, texts)),
            headers={"content-disposition": f'attachment; filename="posenc-{rooms.find(name).question}.csv"'},
            media_type="text/csv",
        )
    parts: dict[str, Callable[[], Any]] = {
        "picture": lambda: wire.view(answers.view(name, texts)),
        "table": lambda: tables.tables(answers.view(name, texts)),
        "at": lambda: answers.value(name, texts),
        "claim": lambda: answers.claim(name),
        "quiz": deck.cards,
        "index": lambda: {name: [c.name for c in stage.controls] for name, (_, stage) in rooms.BY_QUESTION.items()},
    }
    return JSONResponse(parts[part]())


def settings(hosts: Collection[str] = LOOPBACK) -> uvicorn.Config:
    """Return the uvicorn settings of the lab: no access log, no websockets, no trusted proxies."""
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
    """Serve the lab until the process is interrupted; ``port=0`` uses any free port.

    Raises:
        InvalidArgument: the port is in use, the host is not an address of this computer, or the host is a wildcard.
            With a wildcard, the lab could not check which host a request names.
    """
    if host in ("0.0.0.0", "::", ""):
        raise InvalidArgument(f"host={host!r} means every address; pass a single address, such as 127.0.0.1")
    name = f"[{host}]" if ":" in host else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # The socket listens from here on, so requests before the loop starts wait instead of being refused.
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise InvalidArgument(
                f"host={host!r} is not an address of this computer; pass one of its own, such as 127.0.0.1"
            ) from error
        raise InvalidArgument(f"port {port} on {host} cannot be used; choose another port with --port") from error
    address = f"http://{name}:{listening.getsockname()[1]}/"
    print(f"The lab is at {address}  (Ctrl+C ends it)", flush=True)
    if open_page:
        threading.Timer(0.2, webbrowser.open, (address,)).start()
    uvicorn.Server(settings((name,))).run(sockets=[listening])
