"""Sessions read back: JIT's pages and headers, and memos that say what each page added."""

import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.finding.sessions import TurnShelf, first_words
from gaiad.archive.reading.memo import MEMO_VERSION
from gaiad.base.errors import Conflict, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.memory import SessionTurn, TurnMessage
from gaiad.wire.schemas import SearchRequest
from tests.makers.archives import open_tenant

Open = Callable[..., Awaitable[LocalArchive]]
TALK = [
    ("Anna Schmidt asked who pays for the lamp.", "We decided to share the fee. The meeting is on 12 December."),
    ("What did Anna Schmidt say about the lamp?", "Anna wants it lit by 12 December, says Bob."),
    ("Should Bob paint the pier?", "Nobody knows. Does Bob have a ladder?"),
    ("Thanks.", "You are welcome."),
]


def turns(count: int = len(TALK), session: str = "s", **fields: Any) -> list[SessionTurn]:
    return [
        SessionTurn(
            **{
                "session_id": session,
                "turn_id": f"{session}-{number}",
                "sequence": number,
                "started_at": f"2025-12-01T12:{number:02d}:00Z",
                "messages": [TurnMessage(role="user", content=user), TurnMessage(role="assistant", content=answer)],
                **fields,
            }
        )
        for number, (user, answer) in enumerate(TALK[:count])
    ]


async def test_a_page_comes_with_jits_header_which_stands_nowhere_in_its_text(
    archive: LocalArchive, call: RequestContext
) -> None:
    labels = {
        "agent_id": "agent-7",
        "tags": ["light"],
        "classification": ["internal"],
        "policy_tags": ["no-export"],
        "origin_run_id": "res_9",
        "request_intent": "ask",
    }
    await archive.remember_turns(turns(2, **labels), call)
    pages = await archive.session_pages("s", call)
    assert [page.raw_content for page in pages] == [said for pair in TALK[:2] for said in pair]
    assert [page.sequence for page in pages] == [0, 1, 2, 3]
    assert msgspec.to_builtins(pages[1]) == {
        "id": pages[1].id,
        "sessionId": "s",
        "tenantId": "local",
        "sequence": 1,
        "rawContent": TALK[0][1],
        "header": {
            "sessionId": "s",
            "tenantId": "local",
            "agentId": "agent-7",
            "sequence": 1,
            "createdAt": "2025-12-01T12:00:00Z",
            "memoSnapshot": "Dates: 2025-12-12; Decided: We decided to share the fee.",
            "tags": ["light"],
            "classification": ["internal"],
            "policyTags": ["no-export"],
            "originRunId": "res_9",
            "requestIntent": "ask",
        },
        "memo": "Dates: 2025-12-12; Decided: We decided to share the fee.",
        "tags": ["light"],
        "classification": ["internal"],
        "policyTags": ["no-export"],
        "metadata": {
            "memo_version": MEMO_VERSION,
            "packet_id": "s-0",
            "speaker": "assistant",
            "section": "transcript",
        },
    }
    assert [page.sequence for page in await archive.session_pages("s", call, after=1, limit=1)] == [2]
    headers = await archive.page_headers([pages[3].id, pages[0].id], call)
    assert headers == [pages[3].header, pages[0].header]
    assert await archive.session_pages("nobody", call) == []


async def test_a_packet_that_is_no_turn_has_a_header_too_and_an_unknown_page_none(
    archive: LocalArchive, call: RequestContext, make_packet: Callable[..., bytes]
) -> None:
    await archive.ingest_documents([("a.xml", make_packet())], call)
    pages = (await archive.packet_detail("TP-1", call)).pages
    (header,) = await archive.page_headers([pages[1].page_id], call)
    assert msgspec.to_builtins(header) == {
        "sessionId": "TP-1",
        "tenantId": "local",
        "sequence": 1,
        "createdAt": "2025-11-27T09:30:00Z",
        "tags": ["light", "harbour"],
    }
    with pytest.raises(NotFound, match="nope"):
        await archive.page_headers(["nope"], call)
    await archive.remember_turn(turns(1)[0], RequestContext(tenant="work"))
    foreign = (await archive.session_pages("s", RequestContext(tenant="work")))[0].id
    with pytest.raises(NotFound, match=foreign):
        await archive.page_headers([foreign], call)


async def test_a_memo_holds_only_what_its_page_adds(archive: LocalArchive, call: RequestContext) -> None:
    await archive.remember_turns(turns(), call)
    memos = await archive.session_memos("s", call)
    assert [(memo.sequence, memo.text) for memo in memos] == [
        (0, "Names: Anna Schmidt"),
        (1, "Dates: 2025-12-12; Decided: We decided to share the fee."),
        (3, "Names: Bob"),
        (5, "Open: Does Bob have a ladder?"),
    ]
    assert {memo.memo_version for memo in memos} == {MEMO_VERSION}
    assert [memo.text for memo in await archive.packet_memos("s-1", call)] == ["Names: Bob"]
    assert await archive.packet_memos("nobody", call) == []
    assert await archive.session_memo("s", call) == (
        "Names: Anna Schmidt, Bob; Dates: 2025-12-12; Decided: We decided to share the fee.;"
        " Open: Does Bob have a ladder?"
    )
    assert await archive.session_memo("nobody", call) == ""


async def test_a_question_that_found_no_answer_stays_open(archive: LocalArchive, call: RequestContext) -> None:
    await archive.remember_turns(turns(2, status="NOT_FOUND"), call)
    open_questions = [memo.open_questions for memo in await archive.session_memos("s", call)]
    assert ["What did Anna Schmidt say about the lamp?"] in open_questions


async def test_sessions_know_nothing_of_each_other(archive: LocalArchive, call: RequestContext) -> None:
    await archive.remember_turns([*turns(2), *turns(2, session="t")], call)
    first, second = await archive.session_memos("s", call), await archive.session_memos("t", call)
    assert [memo.text for memo in first] == [memo.text for memo in second]


@pytest.mark.parametrize("seed", range(4))
async def test_memos_do_not_depend_on_the_order_in_which_turns_arrive(
    open_archive: Open, call: RequestContext, tmp_path: Path, seed: int
) -> None:
    plain, mixed = await open_archive(tmp_path / "one"), await open_archive(tmp_path / "two")
    await plain.remember_turns(turns(), call)
    shuffled = turns()
    random.Random(seed).shuffle(shuffled)
    for turn in shuffled:
        await mixed.remember_turn(turn, call)
    assert await mixed.session_memos("s", call) == await plain.session_memos("s", call)
    assert await mixed.session_pages("s", call) == await plain.session_pages("s", call)
    assert await mixed.session_turns("s", call) == await plain.session_turns("s", call)
    assert await mixed.sessions(call) == await plain.sessions(call)


async def test_a_session_is_described_by_its_turns_and_listed_by_when_it_was_last_spoken_in(
    archive: LocalArchive, call: RequestContext
) -> None:
    first, second = turns(2, title="Lamp", classification=["internal"], session_metadata={"a": 1, "b": 1})
    second = msgspec.structs.replace(
        second,
        title="",
        description="About it.",
        agent_id="x",
        classification=["secret", "internal"],
        policy_tags=["p"],
        session_metadata={"b": 2},
        ended_at="2025-12-01T13:00:00Z",
    )
    await archive.remember_turns([first, second], call)
    await archive.remember_turns(turns(1, session="t", started_at="2025-12-01T12:30:00Z"), call)
    await archive.remember_turns(turns(1, session="u", started_at="2025-12-01T13:30:00Z"), call)
    listed = await archive.sessions(call)
    assert [each.session_id for each in listed] == ["u", "s", "t"]
    assert msgspec.to_builtins(listed[1]) == {
        "session_id": "s",
        "tenant_id": "local",
        "title": "Lamp",
        "description": "About it.",
        "agent_id": "x",
        "classification": ["internal", "secret"],
        "policy_tags": ["p"],
        "metadata": {"a": 1, "b": 2},
        "created_at": "2025-12-01T12:00:00Z",
        "updated_at": "2025-12-01T13:00:00Z",
        "turns": 2,
        "pages": 4,
        "first_message": TALK[0][0],
    }
    assert await archive.session("s", call) == listed[1]
    assert [each.session_id for each in await archive.sessions(call, limit=1, offset=1)] == ["s"]
    with pytest.raises(NotFound, match="nobody"):
        await archive.session("nobody", call)


async def test_the_first_thing_said_stands_in_the_list_cut_at_a_word_and_not_what_was_said_later(
    archive: LocalArchive, call: RequestContext
) -> None:
    long = TurnMessage(role="user", content="\n  Which keeper " + "of the lantern " * 30 + "\nand why?")
    first, second = turns(2)
    await archive.remember_turns([msgspec.structs.replace(first, messages=[long]), second], call)
    (listed,) = await archive.sessions(call)
    assert listed.first_message.startswith("Which keeper of the lantern")
    assert listed.first_message.endswith((" the…", " of…", " lantern…"))
    assert len(listed.first_message) <= 120


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (" one\ntwo", "one"),
        ("x" * 20, "x" * 9 + "…"),
        ("one two three", "one two…"),
        ("one two 34", "one two 34"),
    ],
)
def test_first_words_are_a_line_at_most_so_long(text: str, words: str) -> None:
    assert first_words(text, 10) == words


async def test_pages_of_a_session_are_found_and_neighbours_as_any_others(
    archive: LocalArchive, call: RequestContext
) -> None:
    await archive.remember_turns(turns(title="Harbour"), call)
    response = await archive.search(SearchRequest(query="ladder", mode="bm25", adjacent=1), call)
    (hit,) = response.hits[:1]
    assert (hit.packet_id, hit.session_id, hit.speaker, hit.topic) == ("s-2", "s", "assistant", "Harbour")
    assert [each.excerpt for each in hit.adjacent] == ["Should Bob paint the pier?"]
    response = await archive.search(SearchRequest(query="December", mode="bm25"), call)
    assert {hit.packet_id for hit in response.hits} == {f"s-{number}" for number in range(4)}


async def test_a_damaged_original_is_told_and_not_passed_over(
    archive: LocalArchive, call: RequestContext, tmp_path: Path
) -> None:
    await archive.remember_turns(turns(), call)
    before = await archive.session_memos("s", call)
    connection = sqlite3.connect(tmp_path / "home" / "tenants" / "local" / "tenant.db", isolation_level=None)
    connection.execute("UPDATE originals SET body = x'00' WHERE packet = 2")
    connection.close()
    with pytest.raises(Conflict, match=r"s-1.*restore"):
        await archive.session_turns("s", call)
    with pytest.raises(Conflict, match=r"s-1.*restore"):
        await archive.remember_turn(turns()[1], call)
    report = await archive.reindex(call, lambda done, total: None)
    assert any("session s:" in problem for problem in report["problems"])
    assert report["sessions"] == 0
    assert await archive.session_memos("s", call) == before


async def test_turns_that_were_read_are_kept_up_to_a_size_and_never_taken_for_others(
    open_archive: Open, call: RequestContext, tmp_path: Path
) -> None:
    archive = await open_archive()
    await archive.remember_turns([*turns(), *turns(session="t", title="Other")], call)
    await archive.close()
    tenant = open_tenant(tmp_path / "home")

    def read(shelf: TurnShelf, session: str) -> list[SessionTurn]:
        return tenant.file.read(lambda connection: shelf.turns(connection, session, -1, 10, latest=False))

    roomy, narrow, none = TurnShelf(), TurnShelf(max_bytes=600), TurnShelf(max_bytes=0)
    first, other = read(roomy, "s"), read(roomy, "t")
    assert [turn.title for turn in (*first, *other)] == [""] * 4 + ["Other"] * 4
    again = read(roomy, "s")
    assert all(one is two for one, two in zip(first, again, strict=True))
    for shelf in (narrow, none):
        assert read(shelf, "s") == read(shelf, "s") == first
        assert read(shelf, "t") == other
    assert read(none, "s")[0] is not read(none, "s")[0]
    tenant.file.write(lambda c: c.execute("UPDATE originals SET body = x'00'").rowcount)
    assert read(roomy, "s") == first
    with pytest.raises(Conflict, match="s-0"):
        read(none, "s")
    tenant.file.close()
