"""The routes of the page: its files, the one-time link that lets a browser in, and the ways out.

The files hold nothing of anybody's, so they are served to whoever asks: found by a name that cannot lead elsewhere, and
kept by their ETag. What they show comes over the API, from the same routes as everybody's (`routes.py`); what the
page's cookie may do is for the doors.
"""

import os
import re
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

import gaiad
from gaiad.base.errors import Conflict, Forbidden, NotFound
from gaiad.base.logs import get_logger
from gaiad.intake.doors import PageCookie
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.web_login import LINK_S, SESSION_LIFE, WebLogins
from gaiad.wire.schemas import Input

_NAME = re.compile(r"(?:[a-z0-9][a-z0-9_-]*/)*[a-z0-9][a-z0-9_-]*\.([a-z0-9]+)")
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
PAGE = "index.html"


class _File(NamedTuple):
    changed_ns: int
    content: bytes
    tag: str


class PageFiles:
    """The files below `folder`; each is read once, and again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, _File] = {}

    @property
    def complete(self) -> bool:
        """Whether there is a page to serve at all."""
        return (self._folder / PAGE).is_file()

    def answer(self, name: str, request: web.Request) -> web.Response:
        """The file, or 304 when the browser has it as it is. Raises NotFound for any name that is not one of them."""
        matched = _NAME.fullmatch(name)
        media_type = _TYPES.get(matched[1]) if matched else None
        if media_type is None:
            raise NotFound(f"{request.path}: no such file")
        file = self._file(name)
        headers = {"ETag": f'"{file.tag}"', "Cache-Control": "no-cache"}
        known = request.if_none_match or ()
        if any(tag.value in (file.tag, "*") for tag in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.content, headers={**headers, "Content-Type": media_type})

    def _file(self, name: str) -> _File:
        path = self._folder / name
        try:
            changed_ns = path.stat().st_mtime_ns
            found = self._read.get(name)
            if found is None or found.changed_ns != changed_ns:
                content = path.read_bytes()
                found = self._read[name] = _File(changed_ns, content, sha256(content).hexdigest()[:32])
        except OSError as error:
            raise NotFound(f"{name}: no such file ({error.strerror})") from error
        return found


_log = get_logger("gaiad.web")
_HTML = "text/html"
_SIGNED_OUT = """\
<p>You are not logged in. In a terminal on this machine, run</p>
<p><code>gaiad web</code></p>
<p>and open the link it prints: it works once, and lets this browser in. A daemon that was started with
<code>--home</code> needs the same one there.</p>"""
_STALE = """\
<p>This link has been used already, or is too old: each lets one browser in, once, within {minutes} minutes.</p>
<p>Run <code>gaiad web</code> again for a new one, or go <a href="/">to the page</a> if you are logged in.</p>"""
_ONWARD = """<p>Logged in. <a href="/">To the page</a></p>"""


class LinkBody(Input, frozen=True):
    """`for_this_user`: good only for programs of the daemon's own user; others may read it off a command line."""

    for_this_user: bool = False


class WebRoutes:
    """Handlers over one daemon's logins and the page's files."""

    def __init__(self, logins: WebLogins, cookie: PageCookie, files: PageFiles) -> None:
        self._logins = logins
        self._cookie = cookie
        self._files = files

    def table(self) -> list[Route]:
        return [
            Route("GET", "/", self.page, public=True),
            Route("GET", "/login", self.login, public=True),
            Route("POST", "/web/link", self.link, owner="letting a browser in"),
            Route("POST", "/web/logout", self.logout),
            Route("POST", "/web/logout-all", self.logout_all, owner="logging browsers out"),
            Route("GET", "/web/{name:.+}", self.file, public=True),
        ]

    async def page(self, exchange: Exchange) -> Reply:
        """The page, or to somebody who is not logged in how to be."""
        if self._cookie.caller(exchange.request) is None:
            return _plain_page(401, "gaiad", _SIGNED_OUT)
        return self._files.answer(PAGE, exchange.request)

    async def file(self, exchange: Exchange) -> Reply:
        return self._files.answer(exchange.request.match_info["name"], exchange.request)

    async def link(self, exchange: Exchange) -> Reply:
        """A link that lets one browser in, once. The page itself cannot have one: it would outlive its own end."""
        if exchange.caller.session:
            raise Forbidden("links are created on the command line: gaiad web")
        exchange.caller.require_person("letting a browser in")
        url = exchange.service.place.url
        if not url:
            raise Conflict(
                "the page is served over HTTP, which is off: set http.enabled = true, then stop and start gaiad"
            )
        if not self._files.complete:
            raise Conflict("the page's files are missing from this installation; install gaiad again")
        body = await exchange.body(LinkBody)
        code = self._logins.new_link(os.getuid() if body.for_this_user else None)
        return {"url": f"{url}/login?once={code}", "expires_in_s": LINK_S}

    async def login(self, exchange: Exchange) -> Reply:
        """Exchange a link for a session, whose value goes into the browser's cookie, and go on to the page."""
        uid = self._cookie.uid(exchange.request)
        value = self._logins.open_session(exchange.request.query.get("once", ""), uid)
        if value is None:
            _log.warning("login_refused", uid=uid)
            return _plain_page(403, "gaiad: this link is stale", _STALE.format(minutes=round(LINK_S / 60)))
        _log.info("browser_logged_in", uid=uid)
        exchange.service.note("web", "")  # whatever was wrong with the sessions' file, it has been written again
        if exchange.request.headers.get("Sec-Fetch-Site") == "cross-site":
            # Followed from another site, a redirect would arrive without the cookie; after a page of ours it comes.
            response = _plain_page(200, "gaiad", _ONWARD)
            response.headers["Refresh"] = "0; url=/"
        else:
            response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            self._cookie.name, value, max_age=int(SESSION_LIFE.total_seconds()),
            path="/", httponly=True, samesite="Strict",
        )  # fmt: skip
        return response

    async def logout(self, exchange: Exchange) -> Reply:
        """End the session this came with; the others go on."""
        if not exchange.caller.session:
            raise Forbidden("only the page can log itself out; `gaiad web --logout-all` logs every browser out")
        self._logins.close_session(exchange.caller.session)
        _log.info("browser_logged_out", who=exchange.caller.name)
        response = web.json_response({"logged_out": True})
        response.del_cookie(self._cookie.name, path="/", httponly=True, samesite="Strict")
        return response

    async def logout_all(self, exchange: Exchange) -> Reply:
        ended = self._logins.close_all()
        _log.info("all_browsers_logged_out", ended=ended)
        return {"ended": ended}


def page_files() -> PageFiles:
    """Those the package ships."""
    return PageFiles(Path(gaiad.__file__).parent / "web")


def _plain_page(status: int, title: str, body: str) -> web.Response:
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="/web/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/web/signed_out.css">
</head>
<body>
<main>
<h1>gaiad</h1>
{body}
</main>
</body>
</html>
"""
    return web.Response(text=text, status=status, content_type=_HTML, headers={"Cache-Control": "no-store"})
