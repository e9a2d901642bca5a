"""For any test that needs a filled archive: made-up packets, and archives in a temporary home that close themselves."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from gaiad.archive.archive import LocalArchive
    from gaiad.clock import FrozenClock
    from gaiad.config import Config
    from gaiad.ports import Call

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
        yield


@pytest.fixture
def make_packet() -> Callable[..., bytes]:
    """Bytes of a packet in the dialect of GAM's Appendix B: (packet_id, content, topic, timestamp, model, tags)."""
    return _packet


@pytest.fixture
def config() -> "Config":
    from gaiad.config import load_config

    return load_config(environment={})


@pytest.fixture
def clock() -> "FrozenClock":
    from gaiad.clock import FrozenClock

    return FrozenClock(datetime(2025, 12, 1, 12, 0, tzinfo=UTC))


@pytest.fixture
def call() -> "Call":
    from gaiad.ports import Call

    return Call()


@pytest.fixture
async def open_archive(
    tmp_path: Path, config: "Config", clock: "FrozenClock"
) -> "AsyncIterator[Callable[..., Awaitable[LocalArchive]]]":
    """A function that starts an archive under tmp_path/home, or another home; all are closed at the end."""
    from gaiad.archive.archive import LocalArchive
    from gaiad.metrics import Metrics

    opened: list[LocalArchive] = []

    async def start(home: Path = tmp_path / "home", **options: Any) -> LocalArchive:
        archive = LocalArchive(home, options.get("config", config), clock, options.get("embedder"), Metrics())
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
