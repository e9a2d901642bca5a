"""The page's cookie over a real socket: what it opens, and every way another page, program or user may not use it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from gaiad.base.home import Home
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import PeerCheck, TokenCheck, TokenFile
from gaiad.intake.doors import Door, PageCookie, TcpDoor, UnixDoor
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.routes import table
from gaiad.intake.sockets import listen_tcp, listen_unix, url_of
from gaiad.intake.web_login import SESSIONS_NAME, WebLogins
from gaiad.intake.web_routes import PageFiles, WebRoutes, page_files
from gaiad.wire.chat import ChatRequest

FRIEND = "https://friend.example"
PAGE = {"X-Gaiad": "page"}


async def said(exchange: Exchange) -> Reply:
    """Tells the channel a turn would be taken on, as the routes of turns see it."""
    return {"channel": (await exchange.body(ChatRequest)).channel, "caller": exchange.caller.name}


class Site(NamedTuple):
    """Asked by the owner over the socket, by nobody, and by a browser that is logged in."""

    unix: aiohttp.ClientSession
    nobody: aiohttp.ClientSession
    browser: aiohttp.ClientSession
    url: str
    logins: WebLogins
    service: Any

    async def link(self, **body: Any) -> str:
        answer = await self.unix.post("/web/link", json=body)
        return str((await answer.json())["url"])

    async def post(self, path: str, body: Any, **headers: str) -> aiohttp.ClientResponse:
        """What our page would send, with other `headers` in place ("" for without)."""
        given = {"Origin": self.url, **PAGE, "Content-Type": "application/json", **headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kept = {name: value for name, value in given.items() if value}
        return await self.browser.post(path, data=data, headers=kept, skip_auto_headers=["Content-Type"])


@pytest.fixture
async def site(service: Any, home: Home) -> AsyncIterator[Site]:
    tokens, logins = TokenFile(home.token), WebLogins(home.root / SESSIONS_NAME, service.clock)
    tokens.load()
    unix, tcp = listen_unix(home.socket), listen_tcp("127.0.0.1", 0)
    url, cookie = url_of(tcp), PageCookie(logins)
    service.place = SimpleNamespace(url=url)
    check = TokenCheck(tokens, tcp.getsockname()[1], [FRIEND])
    doors: list[tuple[Door, Any]] = [(UnixDoor(PeerCheck(dict)), unix.socket), (TcpDoor(check, cookie), tcp)]
    routes = [*table(), *WebRoutes(logins, cookie, page_files()).table(), Route("POST", "/said", said)]
    runners = [await start_listener(build_app(service, door, routes), listener, 0.5) for door, listener in doors]
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        aiohttp.ClientSession("http://localhost", connector=aiohttp.UnixConnector(str(home.socket))) as over_unix,
        aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()) as nobody,
        aiohttp.ClientSession(url, cookie_jar=jar) as browser,
    ):
        made = Site(over_unix, nobody, browser, url, logins, service)
        assert (await browser.get(await made.link())).status == 200
        yield made
    for runner in runners:
        await runner.cleanup()


async def refusal(response: aiohttp.ClientResponse) -> tuple[int, str]:
    return response.status, (await response.json())["code"]


# ------------------------------------------------------------------------------------------------------------- login


async def test_the_link_sets_a_cookie_no_script_can_read_and_goes_on_to_the_page(site: Site) -> None:
    answer = await site.nobody.get(await site.link(), allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    name, _, rest = answer.headers["Set-Cookie"].partition("=")
    assert name.startswith("gaiad_web")
    attributes = {part.strip() for part in rest.split(";")[1:]}
    assert attributes == {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"}
    assert answer.headers["Cache-Control"] == "no-store"
    page = await site.browser.get("/")
    assert page.status == 200
    assert "<title>gaiad</title>" in await page.text()


async def test_a_link_followed_from_another_site_goes_on_by_a_page_of_ours(site: Site) -> None:
    """A browser would leave out a Strict cookie on a redirect that another site began."""
    answer = await site.nobody.get(await site.link(), headers={"Sec-Fetch-Site": "cross-site"}, allow_redirects=False)
    assert (answer.status, answer.headers["Refresh"]) == (200, "0; url=/")
    assert "Set-Cookie" in answer.headers


async def test_a_used_wrong_or_missing_code_is_told_and_opens_nothing(site: Site) -> None:
    used = await site.link()
    assert (await site.nobody.get(used, allow_redirects=False)).status == 303
    for path in (
        used,
        "/login?once=wrong",
        "/login?once=",
        "/login",
        f"/login?once={'x' * 5000}",
        "/login?once=%ff%00",
    ):
        answer = await site.nobody.get(path, allow_redirects=False)
        assert answer.status == 403
        assert "Set-Cookie" not in answer.headers
        assert "gaiad web" in await answer.text()


async def test_a_code_of_the_visitor_never_comes_back_in_the_page(site: Site) -> None:
    answer = await site.nobody.get("/login", params={"once": "<script>alert(1)</script>"})
    assert "script" not in await answer.text()


async def test_without_a_login_the_page_says_how_to_get_one(site: Site) -> None:
    for cookie in ("", f"{site.logins.cookie}=made-up", "gaiad_web=x"):
        answer = await site.nobody.get("/", headers={"Cookie": cookie} if cookie else {})
        assert answer.status == 401
        assert "<code>gaiad web</code>" in await answer.text()


async def test_only_the_owner_makes_links_and_the_page_itself_none(site: Site) -> None:
    assert (await refusal(await site.nobody.post("/web/link", json={}))) == (401, "unauthorized")
    assert (await refusal(await site.post("/web/link", {}))) == (403, "forbidden")


async def test_without_a_tcp_listener_no_link_is_made(site: Site) -> None:
    site.service.place = SimpleNamespace(url="")
    answer = await site.unix.post("/web/link", json={})
    assert answer.status == 409
    assert "http.enabled = true" in (await answer.json())["message"]


async def test_without_the_pages_files_no_link_is_made(service: Any, home: Home, tmp_path: Path) -> None:
    service.place = SimpleNamespace(url="http://127.0.0.1:1")
    logins, listener = WebLogins(home.root / SESSIONS_NAME, service.clock), listen_unix(home.socket)
    routes = WebRoutes(logins, PageCookie(logins), PageFiles(tmp_path / "nothing")).table()
    runner = await start_listener(build_app(service, UnixDoor(PeerCheck(dict)), routes), listener.socket, 0.5)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(home.socket))) as session:
        answer = await session.post("http://localhost/web/link", json={})
        assert answer.status == 409
        assert "install gaiad again" in (await answer.json())["message"]
    await runner.cleanup()


# ---------------------------------------------------------------------------------------------- what the cookie opens


async def test_with_the_cookie_the_page_may_ask_as_the_owner(site: Site) -> None:
    assert (await site.browser.get("/status")).status == 200
    assert (await site.post("/search", {"query": "x", "tenant": "work"})).status == 200
    assert (await site.browser.get("/config")).status == 200


async def test_what_the_page_says_was_said_there_whatever_the_body_claims(site: Site) -> None:
    for claimed in ("cli_chat", "web_chat", "discord_chat"):
        answer = await (await site.post("/said", {"message": "x", "channel": claimed})).json()
        assert answer["channel"] == "web_chat"
        assert answer["caller"].startswith("the page")
        over_unix = await site.unix.post("/said", json={"message": "x", "channel": claimed})
        assert (await over_unix.json())["channel"] == claimed


async def test_events_come_with_the_cookie_alone_for_a_browser_sends_no_header_there(site: Site) -> None:
    site.service.hub.publish("tick", "local", number=1)
    async with site.browser.get("/events?after=0", headers={"Sec-Fetch-Site": "same-origin"}) as response:
        assert response.status == 200
        assert await asyncio.wait_for(response.content.readline(), 30)


# ---------------------------------------------------------------------------------------------------------- forgery


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Gaiad": ""},
        {"X-Gaiad": "1"},
        {"X-Gaiad": "", "Content-Type": "text/plain"},
        {"X-Gaiad": "", "Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": ""},
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": FRIEND},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Host": "localhost:{port}"},
    ],
)
async def test_a_forged_request_with_the_cookie_is_refused(site: Site, headers: dict[str, str]) -> None:
    port = site.url.rpartition(":")[2]
    filled = {name: value.format(port=port) for name, value in headers.items()}
    if "Host" in headers:
        filled["Cookie"] = f"{site.logins.cookie}={_value(site)}"
    answer = await site.post("/search", {"query": "x"}, **filled)
    assert await refusal(answer) == (403, "forbidden")
    assert site.service.calls == []


def _value(site: Site) -> str:
    return next(cookie.value for cookie in site.browser.cookie_jar if cookie.key == site.logins.cookie)


@pytest.mark.parametrize("path", ["/", "/login", "/web/icon.svg"])
async def test_a_name_that_was_rebound_to_this_machine_gets_not_even_the_page(site: Site, path: str) -> None:
    link = (await site.link()).removeprefix(site.url)
    for asked in (path, link):
        answer = await site.nobody.get(asked, headers={"Host": "evil.example"}, allow_redirects=False)
        assert await refusal(answer) == (403, "forbidden")
    assert (await site.nobody.get(link, allow_redirects=False)).status == 303


async def test_a_form_of_another_site_does_nothing(site: Site) -> None:
    form = aiohttp.FormData({'{"query": "': '"}'})
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {}):
        answer = await site.browser.post("/stop", data=form(), headers=headers)
        assert await refusal(answer) == (403, "forbidden")
    assert not site.service.stopped.is_set()


@pytest.mark.parametrize("site_of", ["cross-site", "same-site"])
async def test_what_another_page_asks_for_is_refused_though_the_browser_adds_the_cookie(
    site: Site, site_of: str
) -> None:
    for path in ("/status", "/events", "/config", "/jobs"):
        answer = await site.browser.get(path, headers={"Sec-Fetch-Site": site_of})
        assert await refusal(answer) == (403, "forbidden")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", FRIEND])
async def test_an_event_source_of_another_page_is_refused(site: Site, origin: str) -> None:
    headers = {"Origin": origin, "Accept": "text/event-stream"}
    answer = await site.browser.get("/events", headers=headers)
    assert answer.status == 403
    assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_no_web_socket_is_opened_to_anybody(site: Site) -> None:
    for origin, status in (("https://evil.example", 403), (site.url, 200)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await site.browser.ws_connect("/status", headers={"Origin": origin})
        assert refused.value.status == status


async def test_a_preflight_never_allows_the_pages_header(site: Site) -> None:
    answer = await site.nobody.options(
        "/search", headers={"Origin": FRIEND, "Access-Control-Request-Headers": "x-gaiad"}
    )
    assert "x-gaiad" not in answer.headers["Access-Control-Allow-Headers"].lower()
    assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_a_bearer_token_counts_before_the_cookie(site: Site) -> None:
    answer = await site.browser.get("/status", headers={"Authorization": "Bearer not-the-token-at-all"})
    assert await refusal(answer) == (401, "unauthorized")


async def test_the_cookie_means_nothing_under_another_daemons_name(site: Site) -> None:
    headers = {"Cookie": f"gaiad_web={_value(site)}; gaiad_web_00000000={_value(site)}"}
    assert (await site.nobody.get("/status", headers=headers)).status == 401


# -------------------------------------------------------------------------------------------------------------- ends


async def test_logging_out_ends_this_session_and_its_streams_only(site: Site) -> None:
    async with aiohttp.ClientSession(site.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
        await other.get(await site.link())
        mine, theirs = await site.browser.get("/events"), await other.get("/events")
        value = _value(site)
        answer = await site.post("/web/logout", {})
        assert answer.status == 200
        assert "Max-Age=0" in answer.headers["Set-Cookie"]
        with pytest.raises(aiohttp.ClientPayloadError):
            await asyncio.wait_for(mine.content.read(), 30)
        mine.close()
        replayed = await site.nobody.get("/status", headers={"Cookie": f"{site.logins.cookie}={value}"})
        assert await refusal(replayed) == (401, "unauthorized")
        assert (await other.get("/status")).status == 200
        assert not theirs.content.at_eof()
        theirs.close()


async def test_the_owner_ends_every_session(site: Site) -> None:
    stream = await site.browser.get("/events")
    answer = await site.unix.post("/web/logout-all", json={})
    assert await answer.json() == {"ended": 1}
    with pytest.raises(aiohttp.ClientPayloadError):
        await asyncio.wait_for(stream.content.read(), 30)
    stream.close()
    assert (await site.browser.get("/status")).status == 401
    assert (await site.browser.get("/")).status == 401


async def test_nobody_else_logs_anybody_out(site: Site) -> None:
    assert (await site.nobody.post("/web/logout-all", json={})).status == 401
    assert (await site.nobody.post("/web/logout", json={})).status == 401
    assert (await site.unix.post("/web/logout", json={})).status == 403
    assert (await site.post("/web/logout", {}, **{"X-Gaiad": ""})).status == 403
    assert (await site.browser.get("/status")).status == 200


# ----------------------------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize("path", ["/", "/web/index.html", "/status", "/nowhere", "/login", "/healthz"])
async def test_every_answer_keeps_a_browser_strict(site: Site, path: str) -> None:
    headers = (await site.browser.get(path)).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    own = dict.fromkeys(("script-src", "style-src", "img-src", "font-src", "connect-src"), "'self'")
    none = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    assert policy == {**own, **none, "require-trusted-types-for": "'script'"}
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] in ("no-store", "no-cache")


# ------------------------------------------------------------------------------------------------------------- files


async def test_a_file_is_sent_once_and_then_known_by_its_tag(site: Site) -> None:
    first = await site.nobody.get("/web/icon.svg")
    assert (first.status, first.headers["Content-Type"]) == (200, "image/svg+xml")
    tag = first.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await site.nobody.get("/web/icon.svg", headers={"If-None-Match": known})
        assert (again.status, await again.read(), again.headers["ETag"]) == (304, b"", tag)
    assert (await site.nobody.get("/web/icon.svg", headers={"If-None-Match": '"other"'})).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/web/../config.py",
        "/web/%2e%2e/config.py",
        "/web/..%2fconfig.py",
        "/web/%2e%2e%2fcli%2fmain.py",
        "/web/....//config.py",
        "/web//etc/passwd",
        "/web/%2fetc%2fpasswd",
        "/web/..\\config.py",
        "/web/icon.svg%00.js",
        "/web/icon.svg/",
        "/web/./icon.svg/../../config.py",
        "/web/.hidden.js",
        "/web/x/.svg",
        "/web/ICON.SVG",
        "/web/icon",
        "/web/",
        "/web",
        f"/web/{'x' * 5000}.js",
        "/web/%ff.js",
    ],
)
async def test_no_name_leads_out_of_the_pages_folder(site: Site, path: str) -> None:
    """Sent as it stands, for a client would tidy it up."""
    host, port = site.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    writer.write(request.encode("utf-8"))
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    assert answer.split(b" ")[1] in (b"404", b"400"), answer[:200]
    for leaked in (b"import ", b"root:", b"<svg"):
        assert leaked not in answer


async def test_a_file_that_changes_is_sent_anew(tmp_path: Path, service: Any, home: Home) -> None:
    folder, logins = tmp_path / "web", WebLogins(home.root / SESSIONS_NAME, service.clock)
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "a.js").write_text("one")
    listener = listen_unix(home.socket)
    routes = WebRoutes(logins, PageCookie(logins), PageFiles(folder)).table()
    runner = await start_listener(build_app(service, UnixDoor(PeerCheck(dict)), routes), listener.socket, 0.5)
    async with aiohttp.ClientSession("http://localhost", connector=aiohttp.UnixConnector(str(home.socket))) as session:
        first = await session.get("/web/parts/a.js")
        assert (await first.text(), first.headers["Content-Type"]) == ("one", "text/javascript; charset=utf-8")
        (folder / "parts" / "a.js").write_text("two")
        again = await session.get("/web/parts/a.js", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status, await again.text()) == (200, "two")
        (folder / "parts" / "a.js").unlink()
        assert (await session.get("/web/parts/a.js")).status == 404
        assert (await session.get("/web/parts")).status == 404
    await runner.cleanup()


async def test_a_body_larger_than_the_limit_is_refused_for_the_page_too(site: Site) -> None:
    assert (await refusal(await site.post("/said", b"x" * 70_000))) == (413, "too_large")
    assert (await site.post("/said", msgspec.to_builtins(ChatRequest(message="x")))).status == 200
