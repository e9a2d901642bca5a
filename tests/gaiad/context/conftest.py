"""A context store in a home of its own."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.ports import RequestContext
from gaiad.context.store import ContextStore
from gaiad.store.home_databases import HomeDatabases


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(datetime(2025, 12, 1, 12, tzinfo=UTC))


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[HomeDatabases]:
    opened = HomeDatabases(tmp_path / "home")
    yield opened
    opened.close()


@pytest.fixture
def store(databases: HomeDatabases, clock: FrozenClock) -> ContextStore:
    return ContextStore(databases, clock, None)


@pytest.fixture
def call() -> RequestContext:
    return RequestContext()
