"""What stands between the lab and the network: host, origin and method checks, headers, and errors kept inside."""

import json
import logging
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

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

FAILED = "the lab failed to answer; its terminal says why"

log = logging.getLogger("posenc.lab")


class Guard:
    """Wraps the app: only GET, only under a name of this machine, only from the lab's own pages.

    A foreign Host header means that another name was made to point here (DNS rebinding); a foreign Origin means
    that another site's script is asking. Neither gets an answer. An exception is logged here and never sent.
    """

    def __init__(self, app: App, hosts: Collection[str] = LOOPBACK) -> None:
        self.app = app
        self.hosts = frozenset(hosts) | frozenset(LOOPBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", []), *_encoded(HEADERS)]
            await send(message)

        refusal = self.refusal(scope)
        if refusal is not None:
            await _answer(with_headers, *refusal)
            return
        try:
            await self.app(scope, receive, with_headers)
        except Exception:
            log.exception("%s failed", scope.get("path"))
            if not begun:
                await _answer(with_headers, 500, FAILED)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and words where a request is not one of ours; None where it is."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if _name(host) not in self.hosts:
            return 403, f"the lab answers as {', '.join(sorted(self.hosts))}; this request asked for another host"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return 403, "the lab answers its own pages only; this request came from another site"
        if headers.get("sec-fetch-site", "same-origin") == "cross-site" and scope["path"].startswith("/api"):
            return 403, "the lab answers its own pages only; this request came from another site"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, f"the lab only answers GET; this was {scope['method'][:10]}"
        return None


def _name(host: str) -> str:
    """The host without its port: ``127.0.0.1:8000`` → ``127.0.0.1``, ``[::1]:8000`` → ``[::1]``."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def _answer(send: Send, status: int, words: str) -> None:
    body = json.dumps({"error": words}).encode()
    headers = _encoded({"content-type": "application/json", "content-length": str(len(body))})
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
