"""What stands between the lab and the network: hosts, origins and methods that are refused, and headers."""

from collections.abc import Collection

from starlette.requests import Request

from posenc.teaching.lab.replies import Reply, computes, refused

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

ELSEWHERE = "the lab answers its own pages only; this request came from another site"


def refusal(request: Request, hosts: Collection[str]) -> Reply | None:
    """The answer to a request that is not one of ours; None where it is: GET, of one of these hosts, by our pages.

    A foreign Host header means that another name was made to point here (DNS rebinding); a foreign Origin means
    that another site's script is asking. Neither gets an answer.
    """
    host = request.headers.get("host", "")
    if _name(host) not in hosts:
        return refused(f"the lab answers as {', '.join(sorted(hosts))}; this request asked for another host", 403)
    if request.headers.get("origin", f"http://{host}") != f"http://{host}":
        return refused(ELSEWHERE, 403)
    if request.headers.get("sec-fetch-site") == "cross-site" and computes(request.url.path):
        return refused(ELSEWHERE, 403)
    if request.method not in ("GET", "HEAD"):
        return refused(f"the lab only answers GET; this was {request.method[:10]}", 405)
    return None


def _name(host: str) -> str:
    """The host without its port: ``127.0.0.1:8000`` → ``127.0.0.1``, ``[::1]:8000`` → ``[::1]``."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
