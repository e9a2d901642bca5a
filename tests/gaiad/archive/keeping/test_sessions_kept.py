"""What verify, reindex, sweep, backup and restore do for remembered sessions."""

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.reading import memo
from gaiad.archive.storing import sessions
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.memory import SessionTurn, TurnMessage

Open = Callable[..., Awaitable[LocalArchive]]


def turns(session: str, count: int = 3) -> list[SessionTurn]:
    return [
        SessionTurn(
            session_id=session,
            turn_id=f"{session}-{number}",
            title=f"Talk {session}",
            messages=[
                TurnMessage(role="user", content=f"Did Captain Boat{number} agree?"),
                TurnMessage(role="assistant", content=f"We decided to hire Boat{number} on 12 December."),
            ],
        )
        for number in range(count)
    ]


def tamper(tmp_path: Path, *statements: str) -> None:
    connection = sqlite3.connect(tmp_path / "home" / "tenants" / "local" / "tenant.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def all_of(archive: LocalArchive, call: RequestContext) -> list[Any]:
    listed = await archive.sessions(call)
    return [
        listed,
        *[await archive.session_turns(each.session_id, call) for each in listed],
        *[await archive.session_memos(each.session_id, call) for each in listed],
        *[await archive.session_pages(each.session_id, call) for each in listed],
    ]


async def reindex(archive: LocalArchive, call: RequestContext) -> dict[str, Any]:
    return await archive.reindex(call, lambda done, total: None)


async def test_sessions_are_made_anew_from_the_originals_alone(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Callable[..., bytes]
) -> None:
    await archive.ingest_documents([("a.xml", make_packet())], call)
    await archive.remember_turns([*turns("s"), *turns("t")], call)
    before = await all_of(archive, call)
    assert (await archive.verify_packets(None, call)).problems == []
    tamper(
        tmp_path,
        "DELETE FROM memos WHERE page % 2",
        "UPDATE memos SET memo_version = 0",
        "DELETE FROM turns WHERE turn_id = 's-1'",
        "UPDATE turns SET first_page = 7",
        "DELETE FROM session_knows",
        "UPDATE sessions SET title = 'forged', turns = 99 WHERE session_id = 't'",
        "UPDATE sessions SET session_id = 'forged' WHERE session_id = 's'",
    )
    problems = (await archive.sweep([], call))["problems"]
    assert [problem for problem in problems if "1 turns that belong to no session; run gaiad reindex" in problem]
    assert [problem for problem in problems if "pages of turns without a memo" in problem]
    report = await reindex(archive, call)
    assert (report["sessions"], report["pages_changed"], report["problems"]) == (2, 0, [])
    assert await all_of(archive, call) == before
    assert (await archive.sweep([], call))["problems"] == []


async def test_reindex_twice_is_reindex_once_and_turns_go_on_after_it(
    archive: LocalArchive, call: RequestContext
) -> None:
    await archive.remember_turns(turns("s"), call)
    before = await all_of(archive, call)
    await reindex(archive, call)
    await reindex(archive, call)
    assert await all_of(archive, call) == before
    await archive.remember_turns(turns("s", 5), call)
    memos_now = await archive.session_memos("s", call)
    assert memos_now[-1].text == "Decided: We decided to hire Boat4 on 12 December."
    assert [each.sequence for each in await archive.session_turns("s", call)] == [0, 1, 2, 3, 4]


async def test_newer_memo_rules_are_told_by_the_sweep_and_taken_up_by_reindex(
    archive: LocalArchive, call: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive.remember_turns(turns("s"), call)
    monkeypatch.setattr(sessions, "MEMO_VERSION", memo.MEMO_VERSION + 1)
    problems = (await archive.sweep([], call))["problems"]
    assert problems == ["6 pages of turns without a memo, or with an older one; run gaiad reindex"]
    await reindex(archive, call)
    assert (await archive.sweep([], call))["problems"] == []
    assert {each.memo_version for each in await archive.session_memos("s", call)} == {memo.MEMO_VERSION + 1}


async def test_a_backup_brings_sessions_back(open_archive: Open, call: RequestContext, tmp_path: Path) -> None:
    archive = await open_archive()
    await archive.remember_turns(turns("s"), call)
    before = await all_of(archive, call)
    await archive.backup(tmp_path / "saved")
    await archive.remember_turns([*turns("s", 5), *turns("t")], call)
    await archive.restore(tmp_path / "saved")
    assert await all_of(archive, call) == before
    await archive.remember_turns(turns("s", 4), call)
    assert [each.turn_id for each in await archive.session_turns("s", call)] == ["s-0", "s-1", "s-2", "s-3"]


async def test_a_turn_is_not_superseded_by_a_file_of_its_id(
    archive: LocalArchive, call: RequestContext, make_packet: Callable[..., bytes]
) -> None:
    await archive.remember_turns(turns("s"), call)
    before = await archive.session_turns("s", call)
    (outcome,) = await archive.ingest_documents([("a.xml", make_packet("s-1"))], call)
    assert (outcome.outcome, outcome.reason) == ("quarantined", "id is held by a turn of a chat session: s-1")
    assert await archive.session_turns("s", call) == before
    await reindex(archive, call)
    assert await archive.session_turns("s", call) == before
    assert await archive.remember_turn(turns("s")[1], call) == "s-1"
    assert (await archive.sweep([], call))["problems"] == []


async def test_a_name_that_the_person_gave_a_session_outlives_its_turns_and_a_reindex(
    archive: LocalArchive, call: RequestContext
) -> None:
    first, *others = turns("s")
    await archive.remember_turns([first], call)
    assert (await archive.rename_session("s", "The boats", call)).title == "The boats"
    await archive.remember_turns(others, call)
    await reindex(archive, call)
    assert [each.title for each in await archive.sessions(call)] == ["The boats"]
    assert (await archive.rename_session("s", "", call)).title == ""
    with pytest.raises(BadInput, match="at most 200"):
        await archive.rename_session("s", "x" * 201, call)
    with pytest.raises(NotFound, match="no session 'other'"):
        await archive.rename_session("other", "x", call)
