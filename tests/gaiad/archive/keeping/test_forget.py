"""What is deleted is nowhere: not in search, lists, sessions or the bytes of the database; undo brings it back."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.memory import SessionTurn, TurnMessage
from gaiad.wire.schemas import ForgetRequest, PacketFilter, SearchRequest

Make = Callable[..., bytes]
Open = Callable[..., Awaitable[LocalArchive]]
DAY_S = 24 * 60 * 60
SECRET = "The xylocarp grows behind the boathouse."


async def found(archive: LocalArchive, words: str, call: RequestContext) -> set[str]:
    return {hit.packet_id for hit in (await archive.search(SearchRequest(query=words, mode="bm25"), call)).hits}


def holding(folder: Path, words: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and words in path.read_bytes().lower()]


def turn(number: int, said: str) -> SessionTurn:
    return SessionTurn(
        turn_id=f"turn_{number}",
        session_id="garden",
        sequence=number,
        started_at="2025-11-28T10:00:00Z",
        messages=[TurnMessage(role="user", content="Where?"), TurnMessage(role="assistant", content=said)],
    )


@pytest.fixture
async def filled(archive: LocalArchive, make_packet: Make, call: RequestContext) -> LocalArchive:
    documents = [("a.xml", make_packet("TP-1", SECRET, topic="Xylocarp")), ("b.xml", make_packet("TP-2"))]
    await archive.ingest_documents(documents, call)
    quoting = turn(0, f"It grows behind the boathouse. [Packet: TP-1] {SECRET}")
    await archive.remember_turns([quoting, turn(1, "Something else entirely.")], call)
    return archive


async def test_a_forgotten_packet_and_the_turns_that_quote_it_are_gone(
    filled: LocalArchive, call: RequestContext
) -> None:
    request = ForgetRequest(packet_ids=["TP-1"])
    planned = await filled.deletion.forget(msgspec.structs.replace(request, dry_run=True), "fgt_1", call)
    assert (planned.packets, planned.quoting_turns, planned.forget_id) == (1, 1, "")
    assert await found(filled, "xylocarp", call) != set()
    report = await filled.deletion.forget(request, "fgt_1", call)
    assert report.forget_id == "fgt_1"
    assert await found(filled, "xylocarp boathouse", call) == set()
    assert [packet.packet_id for packet in await filled.list_packets(PacketFilter(), call) if packet.topic] == ["TP-2"]
    assert [one.turn_id for one in await filled.session_turns("garden", call)] == ["turn_1"]
    with pytest.raises(NotFound):
        await filled.packet_detail("TP-1", call)


async def test_undo_brings_packets_and_turns_back_as_they_were(filled: LocalArchive, call: RequestContext) -> None:
    before = (await filled.packet_detail("TP-1", call)).pages, await filled.session_turns("garden", call)
    await filled.deletion.forget(ForgetRequest(packet_ids=["TP-1"]), "fgt_1", call)
    assert [one.packets for one in await filled.deletion.undoable(call)] == [2]
    assert await filled.deletion.undo("fgt_1", call) == 2
    assert ((await filled.packet_detail("TP-1", call)).pages, await filled.session_turns("garden", call)) == before
    assert await found(filled, "xylocarp", call)
    with pytest.raises(NotFound, match="no deletion 'fgt_1'"):
        await filled.deletion.undo("fgt_1", call)


async def test_forgotten_at_once_no_byte_of_it_is_left_in_the_home(
    filled: LocalArchive, call: RequestContext, tmp_path: Path
) -> None:
    await filled.deletion.forget(ForgetRequest(packet_ids=["TP-1"], now=True), "fgt_1", call)
    assert await filled.deletion.undoable(call) == []
    assert holding(tmp_path, b"xylocarp") == []


async def test_what_was_deleted_with_undo_goes_for_good_when_it_is_named_again(
    filled: LocalArchive, call: RequestContext, tmp_path: Path
) -> None:
    await filled.deletion.forget(ForgetRequest(packet_ids=["TP-1"]), "fgt_1", call)
    await filled.deletion.forget(ForgetRequest(packet_ids=["TP-2"]), "fgt_2", call)
    report = await filled.deletion.forget(ForgetRequest(packet_ids=["TP-1"], now=True), "fgt_3", call)
    assert report.packets == 1
    assert [one.forget_id for one in await filled.deletion.undoable(call)] == ["fgt_2"]
    assert holding(tmp_path, b"xylocarp") == []
    with pytest.raises(NotFound):
        await filled.deletion.forget(ForgetRequest(packet_ids=["TP-2"]), "fgt_4", call)


async def test_a_day_later_the_sweep_wipes_what_was_kept_for_undo(
    filled: LocalArchive, call: RequestContext, clock: FrozenClock, tmp_path: Path
) -> None:
    await filled.deletion.forget(ForgetRequest(packet_ids=["TP-1"]), "fgt_1", call)
    await filled.sweep([], call)
    assert len(await filled.deletion.undoable(call)) == 1
    clock.advance(24 * 3600 + 1)
    await filled.sweep([], call)
    assert await filled.deletion.undoable(call) == []
    assert holding(tmp_path, b"xylocarp") == []


async def test_a_conversation_goes_whole_and_everything_leaves_an_empty_archive(
    filled: LocalArchive, call: RequestContext
) -> None:
    await filled.deletion.forget(ForgetRequest(session_ids=["garden"]), "fgt_1", call)
    assert await filled.sessions(call) == []
    assert await found(filled, "xylocarp", call) == {"TP-1"}
    await filled.deletion.forget(ForgetRequest(everything=True), "fgt_2", call)
    assert await filled.list_packets(PacketFilter(), call) == []
    assert (await filled.counts())["pages"] == 0


async def test_a_packet_that_a_channel_does_not_see_is_unknown_to_it(filled: LocalArchive) -> None:
    reader = RequestContext().without(("light",), ())
    with pytest.raises(NotFound):
        await filled.deletion.forget(ForgetRequest(packet_ids=["TP-2"]), "fgt_1", reader)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (ForgetRequest(), BadInput, "exactly one"),
        (ForgetRequest(packet_ids=["TP-1"], everything=True), BadInput, "exactly one"),
        (ForgetRequest(packet_ids=["TP-1", "TP-9"]), NotFound, "TP-9"),
        (ForgetRequest(session_ids=["nobody"]), NotFound, "nothing matches"),
        (ForgetRequest(import_id="job_x"), NotFound, "no import is called 'job_x'"),
    ],
)
async def test_what_cannot_be_meant_deletes_nothing(
    filled: LocalArchive, call: RequestContext, request_: ForgetRequest, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await filled.deletion.forget(request_, "fgt_1", call)
    assert await found(filled, "xylocarp", call)


async def test_what_is_old_expires_and_a_conversation_only_as_a_whole(
    filled: LocalArchive, clock: FrozenClock, make_packet: Make, call: RequestContext
) -> None:
    clock.advance(9 * DAY_S)
    await filled.remember_turns([turn(2, "The lamp is lit again.")], call)
    await filled.ingest_documents([("c.xml", make_packet("TP-3"))], call)
    clock.advance(2 * DAY_S)
    assert await filled.deletion.expired(10, call) == ["TP-1", "TP-2"]
    assert await filled.deletion.expired(12, call) == []
    clock.advance(9 * DAY_S)
    assert set(await filled.deletion.expired(10, call)) > {"TP-1", "TP-2", "TP-3"}
