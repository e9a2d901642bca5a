"""The standing campaign against a daemon: one row a test, and at the end one table of what was tried, held and fell.

`make test` runs every row with few tries; `make attack` (GAIAD_ATTACK is the share of the full numbers) runs them all.
"""

import os
from collections.abc import Iterator

import pytest

from tests.makers.attacked import Attacked, Row

_ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Iterator[Row]:
    """Counts the tries of one attack; the test fails at its end when one of them was not held off."""
    row = Row(request.node.name.removeprefix("test_").replace("_", " "))
    request.config.stash.setdefault(_ROWS, []).append(row)
    yield row
    if row.fell or not row.tried:
        pytest.fail("\n".join(row.fell[:10]) or "nothing was tried", pytrace=False)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A daemon with 1,024 open files at most, one for the module."""
    with Attacked(tmp_path_factory.mktemp("attacked"), open_files=1024) as daemon:
        yield daemon


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(_ROWS, [])
    if not rows or not os.environ.get("GAIAD_ATTACK"):
        return
    terminalreporter.section("attacks")
    width = max(len(row.name) for row in rows)
    terminalreporter.line(f"{'attack':<{width}}  {'tried':>9}  {'held':>9}  {'fell':>6}")
    for row in rows:
        terminalreporter.line(
            f"{row.name:<{width}}  {row.tried:>9,}  {row.tried - len(row.fell):>9,}  {len(row.fell):>6,}"
        )
