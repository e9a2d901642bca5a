"""For any test that needs a filled archive: made-up packets, and archives in a temporary home that close themselves."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import settings

if TYPE_CHECKING:
    from gaiad.archive.archive import LocalArchive
    from gaiad.base.clock import FrozenClock
    from gaiad.base.config import Config
    from gaiad.base.ports import RequestContext

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts a job in the background: children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example has a deadline: a loaded machine is slow now and then. In CI the examples are the same every time; on a
# desk they are new ones, and what they find becomes an example of its own.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci" if environ.get("GAIAD_CI") else "desk")


def _packet(
    packet_id: str = "TP-1",
    content: str = "The lantern keeps its light in the harbour.",
    topic: str = "Lantern project",
    timestamp: str = "2025-11-27T09:30:00Z",
    model: str = "claude-opus",
    tags: str = "light, harbour",
) -> bytes:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<transmission_packet>
  <header>
    <id>{packet_id}</id><timestamp>{timestamp}</timestamp>
    <original_model>{model}</original_model><topic>{topic}</topic>
  </header>
  <behavior_profile><metrics><critical_thinking>0.9</critical_thinking></metrics><tags>{tags}</tags></behavior_profile>
  <body><summary>A note on {topic}.</summary><content>{content}</content></body>
</transmission_packet>
""".encode()


@pytest.fixture(scope="session", autouse=True)
def own_settings_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Daemons that tests start make the owner's key here, not among the settings of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("GAIAD_MODELS__PROBE", "false")  # made-up models can do nothing, and are given every duty
        yield


@pytest.fixture(autouse=True)
def own_log_settings() -> Iterator[None]:
    """What a test sets for the log of its process ends with it."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def make_packet() -> Callable[..., bytes]:
    """Bytes of a packet in the dialect of GAM's Appendix B: (packet_id, content, topic, timestamp, model, tags)."""
    return _packet


@pytest.fixture
def config() -> "Config":
    from gaiad.base.config import load_config

    return load_config(environment={})


@pytest.fixture
def clock() -> "FrozenClock":
    from gaiad.base.clock import FrozenClock

    return FrozenClock(datetime(2025, 12, 1, 12, 0, tzinfo=UTC))


@pytest.fixture
def call() -> "RequestContext":
    from gaiad.base.ports import RequestContext

    return RequestContext()


@pytest.fixture
async def open_archive(
    tmp_path: Path, config: "Config", clock: "FrozenClock"
) -> "AsyncIterator[Callable[..., Awaitable[LocalArchive]]]":
    """A function that starts an archive under tmp_path/home, or another home; all are closed at the end."""
    from tests.makers.archives import OwnArchive

    opened: list[LocalArchive] = []

    async def start(home: Path = tmp_path / "home", **options: Any) -> "LocalArchive":
        archive = OwnArchive(home, options.get("config", config), clock, options.get("embedder"))
        opened.append(archive)
        await archive.start()
        return archive

    yield start
    for archive in opened:
        await archive.close()


@pytest.fixture
async def archive(open_archive: "Callable[..., Awaitable[LocalArchive]]") -> "LocalArchive":
    """An archive with the empty tenant `local`."""
    return await open_archive()
