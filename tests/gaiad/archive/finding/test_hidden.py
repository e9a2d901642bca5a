"""Labels that a call may not see (memory.exclude): such packets are to it as if they never were, on every way in."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.errors import NotFound
from gaiad.base.ports import RequestContext
from gaiad.research.sentences import cite
from gaiad.wire.memory import SessionTurn, TurnMessage
from gaiad.wire.schemas import Filters, PacketFilter, SearchRequest

OPEN, SHUT = "t-open", "t-shut"
SEEING, BLIND = RequestContext(), RequestContext().without(["SECRET"], ["secret"])


def turn(turn_id: str, session_id: str, words: str, **labels: list[str]) -> SessionTurn:
    return SessionTurn(
        session_id=session_id, turn_id=turn_id, messages=[TurnMessage(role="Quill", content=words)], **labels
    )


@pytest.fixture
async def kept(archive: LocalArchive) -> LocalArchive:
    await archive.remember_turns(
        [
            turn(OPEN, "harbour", "The lantern of the harbour is green."),
            turn(SHUT, "cellar", "The lantern of the cellar hides a zirconium key.", classification=["secret"]),
            turn("t-mixed", "harbour", "The lantern has a nickel hinge.", policy_tags=["Secret"]),
        ],
        SEEING,
    )
    return archive


def page_of(archive: LocalArchive, packet_id: str) -> Awaitable[Any]:
    return archive.section_pages(packet_id, "full_context", SEEING)


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "metadata"])
async def test_search_does_not_find_it(kept: LocalArchive, mode: Any) -> None:
    request = SearchRequest(query="lantern zirconium", mode=mode, explain=True, adjacent=2)
    seen = {hit.packet_id for hit in (await kept.search(request, SEEING)).hits}
    hits = (await kept.search(request, BLIND)).hits
    assert mode == "metadata" or SHUT in seen
    assert {hit.packet_id for hit in hits} <= {OPEN}
    if mode != "metadata":
        assert hits


async def test_a_caller_may_leave_labels_out_by_himself(kept: LocalArchive) -> None:
    request = SearchRequest(query="lantern", filters=Filters(without=["secret"]))
    assert [hit.packet_id for hit in (await kept.search(request, SEEING)).hits] == [OPEN]
    listed = await kept.list_packets(PacketFilter(filters=Filters(without=["secret"])), SEEING)
    assert [packet.packet_id for packet in listed] == [OPEN]


async def test_what_is_hidden_answers_as_what_never_was(kept: LocalArchive) -> None:
    (page,) = await page_of(kept, SHUT)
    (shown,) = await page_of(kept, OPEN)
    ways: list[Callable[[str, str, RequestContext], Awaitable[Any]]] = [
        lambda packet, page, call: kept.pages([shown.page_id, page], call),
        lambda packet, page, call: kept.page_headers([shown.page_id, page], call),
        lambda packet, page, call: kept.search(SearchRequest(mode="page_id", page_ids=[page]), call),
        lambda packet, page, call: kept.section_pages(packet, "full_context", call),
        lambda packet, page, call: kept.packet_summaries([OPEN, packet], call),
        lambda packet, page, call: kept.packet_detail(packet, call),
        lambda packet, page, call: kept.original(packet, call),
        lambda packet, page, call: kept.original(packet, call, 1),
        lambda packet, page, call: kept.verify_packets([packet], call),
    ]
    for way in ways:
        await way(SHUT, page.page_id, SEEING)
        with pytest.raises(NotFound) as hidden:
            await way(SHUT, page.page_id, BLIND)
        with pytest.raises(NotFound) as unknown:
            await way("t-none", "0000000000000000-0000", BLIND)
        same = hidden.value.message.replace(SHUT, "t-none").replace(page.page_id, "0000000000000000-0000")
        assert same == unknown.value.message


async def test_sessions_leave_out_hidden_turns_and_lists_the_sessions_that_have_them(kept: LocalArchive) -> None:
    assert [turn.turn_id for turn in await kept.session_turns("harbour", BLIND)] == [OPEN]
    assert [turn.turn_id for turn in await kept.session_turns("harbour", BLIND, latest=True)] == [OPEN]
    assert [page.metadata["packet_id"] for page in await kept.session_pages("harbour", BLIND)] == [OPEN]
    assert await kept.session_turns("cellar", BLIND) == []
    assert {memo.packet_id for memo in await kept.session_memos("harbour", BLIND)} <= {OPEN}
    assert await kept.packet_memos(SHUT, BLIND) == []
    await kept.remember_turns([turn("t-quay", "quay", "The quay is dry.")], SEEING)
    assert [session.session_id for session in await kept.sessions(BLIND)] == ["quay"]
    with pytest.raises(NotFound):
        await kept.session("cellar", BLIND)


async def test_what_the_archive_knows_by_name_and_by_number_is_without_it(kept: LocalArchive) -> None:
    await kept.remember_turns(
        [turn("t-tag", "attic", "A lantern.", tags=["secret", "attic"]), turn("t-two", "quay", "A lantern.")], SEEING
    )
    for _ in range(2):  # the second time from what is held
        known = await kept.facets(BLIND)
        assert (known.packets, known.pages, known.tags) == (2, 2, {})
    await kept.remember_turns([turn("t-late", "attic", "Lanterns.", classification=["secret"])], SEEING)
    assert ((await kept.facets(BLIND)).packets, (await kept.facets(SEEING)).packets) == (2, 6)
    words = ["lantern", "zirconium"]
    assert await kept.document_frequency(words, SEEING) == {"lantern": 6, "zirconium": 1}
    assert await kept.document_frequency(words, BLIND) == {"lantern": 2, "zirconium": 0}


async def test_words_whose_stem_has_another_stem_are_not_counted_on_hidden_pages(kept: LocalArchive) -> None:
    await kept.remember_turns(
        [
            turn("t-house", "cellar", "The house has a database.", classification=["secret"]),
            turn("t-quay", "quay", "A house, and another house."),
        ],
        SEEING,
    )
    words = ["house", "databases"]
    assert await kept.document_frequency(words, SEEING) == {"house": 2, "databases": 1}
    assert await kept.document_frequency(words, BLIND) == {"house": 1, "databases": 0}


async def test_labels_come_back_with_what_is_found(kept: LocalArchive) -> None:
    hits = {hit.packet_id: hit for hit in (await kept.search(SearchRequest(query="lantern", adjacent=1), SEEING)).hits}
    assert (hits[SHUT].classification, hits[SHUT].policy_tags) == (["secret"], [])
    assert (hits["t-mixed"].classification, hits["t-mixed"].policy_tags) == ([], ["Secret"])
    for page in await kept.pages([hits[SHUT].page_id], SEEING):
        assert (page.classification, cite(page, 0, 5).classification) == (["secret"], ["secret"])


async def test_only_ids_that_exist_are_told_as_hidden(kept: LocalArchive) -> None:
    (page,) = await page_of(kept, SHUT)
    ids = [OPEN, SHUT, "t-none", page.page_id]
    assert await kept.hidden(ids, BLIND) == {SHUT, page.page_id}
    assert await kept.hidden(ids, SEEING) == set()


async def test_a_label_is_a_value_and_never_sql(kept: LocalArchive) -> None:
    for label in ("') OR 1=1 --", "x\0y", "\ud800", ""):
        blind = RequestContext().without([label], [])
        assert len(await kept.list_packets(PacketFilter(), blind)) == 3


def test_a_call_hands_on_what_it_may_not_see() -> None:
    part = BLIND.until(5.0).share(0.5, 1.0)
    assert (part.hidden, part.guarded) == (frozenset({"SECRET"}), frozenset({"secret"}))
    wide = BLIND.without(["other"], [])
    assert wide.hidden == {"SECRET", "other"}
    wide_cancel = RequestContext(deadline=3.0)
    wide_cancel.without(["x"], []).cancel()
    assert wide_cancel.cancelled


async def test_turns_of_gaiads_own_chats_are_listed_where_they_are_asked_for(archive: LocalArchive) -> None:
    await archive.remember_turns(
        [turn("turn_01M81EH6YVDAAAKM98JQAD4X2N", "s", "Mine."), turn("t-9", "s", "His.")], SEEING
    )
    for asked, listed in ((True, 2), (False, 1)):
        found = await archive.list_packets(PacketFilter(include_chats=asked), SEEING)
        assert len(found) == listed
        assert "t-9" in {packet.packet_id for packet in found}
