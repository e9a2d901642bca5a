"""Pages of other servers in a real browser that is logged in: what they try against the daemon comes to nothing."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from tests.makers.browser import chromium
from tests.makers.leaving_clients import LeavingClients

ASKS = """async (url) => {
  const json = {"Content-Type": "application/json"}, ask = '{"query": "forged"}', found = {};
  const tries = {
    read: ["/status", {}],
    blind: ["/status", {mode: "no-cors"}],
    text: ["/search", {method: "POST", body: ask, headers: {"Content-Type": "text/plain"}}],
    blind_text: ["/search", {method: "POST", body: ask, mode: "no-cors"}],
    json: ["/search", {method: "POST", body: ask, headers: json}],
    header: ["/search", {method: "POST", body: ask, headers: {...json, "X-Gaiad": "page"}}],
    stop: ["/stop", {method: "POST", mode: "no-cors"}],
    link: ["/web/link", {method: "POST", mode: "no-cors"}],
    logout: ["/web/logout", {method: "POST", mode: "no-cors"}],
  };
  for (const [name, [path, init]] of Object.entries(tries))
    found[name] = await fetch(url + path, {...init, credentials: "include"})
      .then(answer => answer.type + answer.status, () => "refused");
  return found;
}"""
FOLLOWS = """(url) => Promise.all([
  new Promise(done => { const s = new EventSource(url + "/events", {withCredentials: true});
    s.onopen = () => done("open"); s.onerror = () => { s.close(); done("refused") } }),
  new Promise(done => { const s = new WebSocket(url.replace("http", "ws") + "/events");
    s.onopen = () => done("open"); s.onerror = () => done("refused") }),
])"""
EMBEDS = """(url) => Promise.all([["script", "/web/page.js"], ["img", "/web/icon.svg"], ["script", "/status"]].map(
  ([tag, path]) => new Promise(done => { const one = document.createElement(tag); one.src = url + path;
    one.onload = () => done("loaded"); one.onerror = () => done("refused"); document.body.append(one) })))"""
ASK = """() => fetch("/packets/list", {method: "POST", body: "{}",
  headers: {"X-Gaiad": "page", "Content-Type": "application/json"}}).then(answer => answer.status)"""
FORM = """(url) => { const form = document.createElement("form"); form.method = "POST"; form.enctype = "text/plain";
  const field = document.createElement("input"); field.name = '{"a": "'; field.value = '"}';
  form.action = url + "/stop"; form.append(field); document.body.append(form); form.submit() }"""
FRAME = """(url) => new Promise(done => { const frame = document.createElement("iframe"); frame.src = url + "/";
  frame.onload = () => done(frame.contentDocument === null); document.body.append(frame) })"""
FOLLOW_LINK = """(url) => { const link = document.createElement("a"); link.href = url;
  document.body.append(link); link.click() }"""


class _Server(LeavingClients, ThreadingHTTPServer):
    """Of the other page."""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title><link rel=icon href=data:,><body>")

    def log_message(self, format: str, *arguments: object) -> None:
        """Not into the tests' output."""


class Visit(NamedTuple):
    daemon: BenchDaemon
    url: str
    context: BrowserContext
    port: int  # of the other server

    def elsewhere(self, host: str) -> Page:
        page = self.context.new_page()
        page.goto(f"http://{host}:{self.port}/")
        return page


@pytest.fixture(scope="module")
def visit() -> Iterator[Visit]:
    path = chromium()
    server = _Server(("127.0.0.1", 0), _Page)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        with sync_playwright() as playwright, running_daemon("embedder.kind=none") as daemon:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
            context = browser.new_context()
            page = context.new_page()
            page.goto(daemon.client.post("/web/link", {})["url"])
            yield Visit(daemon, daemon.status()["url"], context, server.server_port)
            browser.close()
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


OTHERS = pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost"]
)  # the same site, by its port another origin; and not


def still_in(visit: Visit) -> bool:
    """Whether the daemon runs and the browser is logged in."""
    page = visit.context.new_page()
    page.goto(f"{visit.url}/status")
    inside = '"uptime_s"' in page.content()
    page.close()
    return inside


@OTHERS
def test_requests_of_another_page_are_refused_and_do_nothing(visit: Visit, host: str) -> None:
    found = visit.elsewhere(host).evaluate(ASKS, visit.url)
    assert set(found.values()) == {"refused"}
    assert not [name for name in visit.daemon.status()["latencies"] if name.startswith("search")]
    assert still_in(visit)


@OTHERS
def test_streams_of_another_page_are_refused(visit: Visit, host: str) -> None:
    assert visit.elsewhere(host).evaluate(FOLLOWS, visit.url) == ["refused", "refused"]


@OTHERS
def test_nothing_of_ours_loads_in_another_page(visit: Visit, host: str) -> None:
    page = visit.elsewhere(host)
    assert page.evaluate(EMBEDS, visit.url) == ["refused", "refused", "refused"]
    assert page.evaluate(FRAME, visit.url) is True  # an error page of the browser's, which has no document for us
    assert not any("gaiad" in frame.content() for frame in page.frames[1:])


@OTHERS
def test_a_form_of_another_page_does_nothing(visit: Visit, host: str) -> None:
    page = visit.elsewhere(host)
    with page.expect_navigation(url=f"{visit.url}/stop"):
        page.evaluate(FORM, visit.url)
    assert "forbidden" in page.content()
    assert still_in(visit)


def test_our_own_page_may_ask_and_no_script_sees_its_cookie(visit: Visit) -> None:
    page = visit.context.new_page()
    page.goto(visit.url)
    assert page.evaluate(ASK) == 200
    assert page.evaluate("document.cookie") == ""


def test_markup_put_into_the_page_as_such_is_refused_by_the_browser(visit: Visit) -> None:
    page = visit.context.new_page()
    page.goto(visit.url)
    put = (
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'taken' } catch (error) { return error.name } })()"
    )
    assert page.evaluate(put) == "TypeError"
    script = (
        "(() => { const s = document.createElement('script'); s.append('window.ran = 1'); document.body.append(s) })()"
    )
    page.evaluate(script)
    assert page.evaluate("window.ran") is None


def test_a_link_followed_from_another_site_arrives_at_the_page(visit: Visit) -> None:
    link = visit.daemon.client.post("/web/link", {})["url"]
    page = visit.elsewhere("localhost")
    page.evaluate(FOLLOW_LINK, link)
    page.wait_for_url(f"{visit.url}/")
    assert page.locator("main#view").count() == 1
