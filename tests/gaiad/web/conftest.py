"""A daemon with a council that says what a script tells it, and a browser that its page is open in."""

import socket
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

import gaiad
from gaiad.bench.daemon_process import BenchDaemon
from tests.makers.browser import browsing, chromium, window
from tests.makers.scripted_home import WITHOUT_EMBEDDER, scripted_settings

SAMPLES = Path(gaiad.__file__).parent / "samples"
PLAN = """PLAN: {"steps": ["Look at the packet", "Quote it"]}"""
REFINED = """PLAN: {"confidence": 0.86, "steps": ["Look at the packet", "Quote it word for word"]}"""
QUOTED = "Bearings of the sand mixer fail about twice a year, and every failure stops the line for a shift."
SLOW = " ".join(f"Now comes word{number}." for number in range(30))
NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script> <b>bold</b> [Packet: <i>x</i>]"
SCRIPT = rf"""
[[reply]]
match = 'Vote yes, no or abstain'
text = '{{"vote": "yes", "confidence": 0.9, "reason": "It is one file"}}'
[[reply]]
match = 'Review the proposed command'
text = '{{"verdict": "accept", "reason": "as asked"}}'
[[reply]]
match = 'the plan, step by step'
text = 'VERIFY: {{"outcome": "success", "summary": "It stands in the packet."}}'
[[reply]]
match = 'think step by step'
text = '{PLAN}'
[[reply]]
match = '(?s)errors, gaps and risks.*guess the heron|guess the heron.*errors, gaps and risks'
text = 'PLAN: {{"confidence": 0.1, "steps": ["Guess"]}}'
[[reply]]
match = 'errors, gaps and risks'
text = '{REFINED}'
[[reply]]
match = 'Answer the user now[\s\S]*delete the old log'
text = '''EXECUTE: {{"argv": ["touch", "a b.txt"], "why": "it is old"}}
RESPONSE: I would do that one thing.'''
[[reply]]
match = 'So late[^\n]*\s*(assistant:?)?\s*\Z'
text = "RESPONSE: Late."
delay_ms = 8000.0
[[reply]]
match = 'tell me slowly[^\n]*\s*(assistant:?)?\s*\Z'
text = "RESPONSE: {SLOW} That is the end."
delay_ms = 120.0
chunk_characters = 7
[[reply]]
match = 'say it twice[^\n]*\s*(assistant:?)?\s*\Z'
text = '''RESPONSE: This is how it is done, and it takes one line only, which you may type yourself at once:
$ rm -rf /home
and then all is gone.'''
times = 1
delay_ms = 10.0
[[reply]]
match = 'say it twice'
text = "RESPONSE: Better said with care."
delay_ms = 60.0
[[reply]]
match = 'be nasty[^\n]*\s*(assistant:?)?\s*\Z'
text = "RESPONSE: {NASTY}"
[[reply]]
match = 'write to me[^\n]*\s*(assistant:?)?\s*\Z'
text = "RESPONSE: Write to ada@example.org, or to bob@example.org."
[[reply]]
match = 'bearings[^\n]*\s*(assistant:?)?\s*\Z'
text = "RESPONSE: {QUOTED} [Packet: tp-20250928-134500]"
delay_ms = 10.0
[[reply]]
text = "RESPONSE: I heard you."
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PageDaemon:
    """A daemon on a port that stays its own when it is started anew."""

    def __init__(self, home, config):
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text(config)
        self.home, self.port, self.daemon = home, free_port(), None
        self.start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self):
        return self.daemon.client

    def start(self):
        self.daemon = BenchDaemon(self.home, [f"http.port={self.port}", "daemon.stop_grace_s=1"])

    def stop(self):
        self.daemon.stop()

    def link(self):
        return self.client.post("/web/link", {})["url"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    chromium()
    folder = tmp_path_factory.mktemp("page")
    (folder / "script.toml").write_text(SCRIPT)
    settings = scripted_settings(folder / "script.toml") + WITHOUT_EMBEDDER + "[models]\nheartbeat_s = 1.0\n"
    daemon = PageDaemon(folder / "h", settings)
    daemon.daemon.ingest(SAMPLES)
    yield daemon
    daemon.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with browsing() as made:
        yield made


@pytest.fixture
def opened(served, browser):
    """`async with opened(...) as window`: logged in, the page drawn, its line to the daemon open."""

    @asynccontextmanager
    async def open_page(place="", **options):
        async with window(browser, served.origin, **options) as made:
            await made.page.goto(served.link())
            await made.page.wait_for_selector('body[data-link="open"]')
            if place:
                await made.page.evaluate("place => { location.hash = place }", place)
            yield made

    return open_page
