"""One-time links and the sessions made of them: what is kept, what ends, what outlives a restart."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import Unavailable
from gaiad.intake.web_login import LINK_S, SESSION_LIFE, WebLogins

UID = 1000


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(datetime(2025, 11, 30, 12, 0, tzinfo=UTC))


@pytest.fixture
def logins(tmp_path: Path, clock: FrozenClock) -> WebLogins:
    made = WebLogins(tmp_path / "web_sessions.json", clock)
    assert made.load() == ""
    return made


def opened(logins: WebLogins, uid: int | None = UID) -> str:
    value = logins.open_session(logins.new_link(), uid)
    assert value is not None
    return value


def test_a_link_lets_the_owner_in_on_the_pages_channel(logins: WebLogins) -> None:
    caller = logins.caller(opened(logins), UID)
    assert caller is not None
    assert (caller.owner, caller.channel) == (True, "web_chat")
    assert caller.name.startswith("the page (session ")


def test_a_link_works_once(logins: WebLogins) -> None:
    code = logins.new_link()
    assert logins.open_session(code, UID) is not None
    assert logins.open_session(code, UID) is None


def test_a_link_runs_out(logins: WebLogins, clock: FrozenClock) -> None:
    early, late = logins.new_link(), logins.new_link()
    clock.advance(LINK_S - 0.1)
    assert logins.open_session(early, UID) is not None
    clock.advance(0.2)
    assert logins.open_session(late, UID) is None


@pytest.mark.parametrize("code", ["", "x", "\udcff", "0" * 100_000])
def test_a_code_nobody_gave_out_opens_nothing(logins: WebLogins, code: str) -> None:
    logins.new_link()
    assert logins.open_session(code, UID) is None
    assert logins.caller(code, UID) is None


def test_only_so_many_links_wait_and_the_oldest_gives_way(logins: WebLogins) -> None:
    codes = [logins.new_link() for _ in range(20)]
    found = [logins.open_session(code, UID) is not None for code in codes]
    assert found == [False] * 4 + [True] * 16


def test_a_link_of_one_uid_is_not_used_up_by_another(logins: WebLogins) -> None:
    code = logins.new_link(only_uid=UID)
    assert logins.open_session(code, 4242) is None
    assert logins.open_session(code, UID) is not None


def test_a_session_is_of_the_uid_that_opened_it(logins: WebLogins) -> None:
    value = opened(logins)
    assert logins.caller(value, UID) is not None
    assert logins.caller(value, 4242) is None
    assert logins.caller(value, None) is None
    untold = opened(logins, None)
    assert logins.caller(untold, None) is not None


def test_a_session_outlives_a_restart_and_ends_in_time(logins: WebLogins, tmp_path: Path, clock: FrozenClock) -> None:
    value = opened(logins)
    again = WebLogins(tmp_path / "web_sessions.json", clock)
    assert again.load() == ""
    assert again.caller(value, UID) == logins.caller(value, UID)
    clock.advance(SESSION_LIFE.total_seconds() - 1)
    assert again.caller(value, UID) is not None
    clock.advance(1)
    assert again.caller(value, UID) is None


def test_the_file_is_private_and_holds_no_session_value(logins: WebLogins, tmp_path: Path) -> None:
    value = opened(logins)
    path = tmp_path / "web_sessions.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert value not in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_session_that_is_closed_stays_closed_and_the_others_open(
    logins: WebLogins, tmp_path: Path, clock: FrozenClock
) -> None:
    one, other = opened(logins), opened(logins)
    caller = logins.caller(one, UID)
    assert caller is not None
    logins.close_session(caller.session)
    again = WebLogins(tmp_path / "web_sessions.json", clock)
    again.load()
    for known in (logins, again):
        assert known.caller(one, UID) is None
        assert known.caller(other, UID) is not None


def test_closing_all_ends_links_that_wait_too(logins: WebLogins, tmp_path: Path, clock: FrozenClock) -> None:
    values, code = [opened(logins), opened(logins)], logins.new_link()
    assert logins.close_all() == 2
    assert logins.close_all() == 0
    again = WebLogins(tmp_path / "web_sessions.json", clock)
    again.load()
    assert [known.caller(value, UID) for known in (logins, again) for value in values] == [None] * 4
    assert logins.open_session(code, UID) is None


def test_only_so_many_sessions_are_kept_the_oldest_goes(logins: WebLogins) -> None:
    values = [opened(logins) for _ in range(65)]
    assert logins.caller(values[0], UID) is None
    assert logins.caller(values[1], UID) is not None
    assert logins.caller(values[-1], UID) is not None


async def test_what_runs_for_a_session_ends_with_it_and_nothing_else_does(logins: WebLogins) -> None:
    one, other = logins.caller(opened(logins), UID), logins.caller(opened(logins), UID)
    assert one is not None
    assert other is not None
    ended: list[str] = []

    async def request(caller, name: str, seconds: float) -> None:
        try:
            with logins.under_way(caller):
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    async def logout(caller) -> None:
        with logins.under_way(caller):
            logins.close_session(caller.session)

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(request(one, "one", 60))
        tasks.create_task(request(other, "other", 0.05))
        await asyncio.sleep(0)
        tasks.create_task(logout(one))
    assert ended == ["one"]


async def test_what_runs_when_a_session_runs_out_ends_then(logins: WebLogins, clock: FrozenClock) -> None:
    caller = logins.caller(opened(logins), UID)
    assert caller is not None
    clock.advance(SESSION_LIFE.total_seconds() - 0.05)
    with pytest.raises(asyncio.CancelledError), logins.under_way(caller):
        await asyncio.sleep(5)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"sha256": "x"}]', "[", "\xff"])
def test_a_damaged_file_is_told_and_logs_everybody_out(logins: WebLogins, tmp_path: Path, content: str) -> None:
    value = opened(logins)
    path = tmp_path / "web_sessions.json"
    path.write_text(content, encoding="latin-1")
    assert "gaiad web" in logins.load()
    assert logins.caller(value, UID) is None
    assert logins.caller(opened(logins), UID) is not None


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_others_could_have_read_or_written_counts_no_more(logins: WebLogins, tmp_path: Path, mode: int) -> None:
    value = opened(logins)
    (tmp_path / "web_sessions.json").chmod(mode)
    assert "other users can read it" in logins.load()
    assert logins.caller(value, UID) is None


def test_a_link_or_a_pipe_in_place_of_the_file_is_not_followed(logins: WebLogins, tmp_path: Path) -> None:
    opened(logins)
    path = tmp_path / "web_sessions.json"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert "cannot be read" in logins.load()
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "not a regular file" in logins.load()


def test_a_login_that_cannot_be_written_down_is_refused_and_leaves_nothing(tmp_path: Path, clock: FrozenClock) -> None:
    logins = WebLogins(tmp_path / "gone" / "web_sessions.json", clock)
    with pytest.raises(Unavailable, match=r"web_sessions\.json: cannot be written"):
        logins.open_session(logins.new_link(), UID)
    with pytest.raises(Unavailable, match="cannot be written"):
        logins.close_all()
