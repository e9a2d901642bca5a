"""Conversations too long to be decoded whole come in, in parts whose identity lasts as they grow."""

import json
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing import conversation_store, json_stream, large_record, sample
from gaiad.archive.importing.importer import ImportOptions
from gaiad.archive.importing.json_stream import SpillFile, Unreadable
from gaiad.archive.importing.large_record import large_record as read_large
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import ForgetRequest, PacketFilter
from tests.makers.exports import chatgpt, chatgpt_node

CALL = RequestContext()


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of 2,000 bytes are large, parts have 300 characters, every step is one part."""
    monkeypatch.setattr(json_stream.elements, "__defaults__", (2000,))
    monkeypatch.setattr(sample, "RECORD_MAX_BYTES", 2000)
    monkeypatch.setattr(large_record, "_LARGE_BYTES", 200)
    monkeypatch.setattr(conversation_store, "_PART_CHARS", 300)


def said(number: int) -> tuple[str, str]:
    return ("user" if number % 2 == 0 else "assistant"), f"Word {number} of the harbour. {'So it goes. ' * 5}"


def of_chatgpt(count: int) -> dict[str, Any]:
    nodes = [chatgpt_node(f"m{n}", f"m{n - 1}" if n else "root", *said(n), float(n)) for n in range(count)]
    nodes.insert(1, chatgpt_node("other", "m0", "assistant", "An answer that was given up.", 0.5))
    return chatgpt(*nodes, conversation_id="long")


def of_claude(count: int) -> dict[str, Any]:
    messages = [
        {
            "uuid": f"m{n}",
            "sender": who.replace("user", "human"),
            "text": text,
            "created_at": f"2024-03-04T00:{n:02}:00Z",
        }
        for n, (who, text) in enumerate(map(said, range(count)))
    ]
    return {"uuid": "long", "name": "Harbour depth", "created_at": "2024-03-04T00:00:00Z", "chat_messages": messages}


async def kept(archive: LocalArchive) -> dict[str, list[str]]:
    """The packets, each with what is said in it."""
    found = await archive.list_packets(PacketFilter(limit=100), CALL)
    details = [await archive.packet_detail(each.packet_id, CALL) for each in found]
    return {each.packet.packet_id: [page.text for page in each.pages] for each in details}


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("make", [of_chatgpt, of_claude])
@pytest.mark.parametrize("alone", [False, True])
async def test_a_long_conversation_comes_in_parts_and_a_part_is_added_when_it_grows(
    run_import: Any, put: Any, archive: LocalArchive, make: Any, alone: bool
) -> None:
    path = put("conversations.json", make(20) if alone else [make(20)])
    assert path.stat().st_size > 2000
    first = await run_import(path)
    assert {each.outcome for each in first} == {"accepted"}
    assert {each.conversation_id for each in first} == {"long"}
    assert [each.part for each in first] == list(range(1, len(first) + 1))
    assert (first[0].title, first[1].title) == ("Harbour depth", "Harbour depth (part 2)")
    assert sum(each.user_messages + each.assistant_messages for each in first) == 20
    before = await kept(archive)
    text = "\n".join(each for pages in before.values() for each in pages)
    assert all(text.count(f"Word {number} of") == 1 for number in range(20))
    assert {each.outcome for each in await run_import(path)} == {"duplicate"}
    grown = await run_import(put("conversations.json", make(24) if alone else [make(24)]))
    assert [each.outcome for each in grown[: len(first) - 1]] == ["duplicate"] * (len(first) - 1)
    assert {each.outcome for each in grown[len(first) - 1 :]} <= {"duplicate", "revised", "accepted"}
    assert len(grown) > len(first)
    after = await kept(archive)
    assert after.keys() > before.keys()
    await archive.deletion.forget(ForgetRequest(packet_ids=[first[0].packet_id], now=True), "fgt_1", CALL)
    assert await kept(archive) == {}
    assert {each.outcome for each in await run_import(path)} == {"ignored"}


@pytest.mark.usefixtures("small_bounds")
async def test_an_import_goes_on_amid_the_parts_of_a_conversation(
    put: Any, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaiad.archive.importing.importer._STEP_BYTES", 1)
    path = put("conversations.json", [of_chatgpt(20), chatgpt(conversation_id="short")])
    steps = [step async for step in archive.import_paths([path], ImportOptions("imp", dry_run=True), CALL, {})]
    whole = [(each.conversation_id, each.part) for step in steps for each in step.outcomes]
    assert len(whole) == len(set(whole)) > 5
    for number, step in enumerate(steps):
        rest = archive.import_paths([path], ImportOptions("imp", dry_run=True), CALL, step.cursor)
        told = [(each.conversation_id, each.part) for one in steps[: number + 1] for each in one.outcomes]
        assert [*told, *[(each.conversation_id, each.part) async for one in rest for each in one.outcomes]] == whole


def spilled(data: bytes) -> SpillFile:
    file = SpillFile()
    file.write(data)
    return file


def test_large_values_are_decoded_in_members_and_nothing_else_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_record, "_LARGE_BYTES", 20)
    value = {"a": [1, "x]}\\", {"b": [[]]}] * 9, "ä": {f"k{n}": {"v": '"'} for n in range(9)}, "c": None, "s": "y" * 99}
    for indent in (None, 2):
        found = read_large(spilled(json.dumps(value, indent=indent).encode()))
        assert isinstance(found["ä"], large_record.LargeObject)
        assert isinstance(found["a"], large_record.LargeArray)
        assert {**found, "a": found["a"].whole(), "ä": found["ä"].whole()} == value
    for broken in (b'{"a": [1, 2', b'{"a": "x', b'{"a" 1, b}', b'{"a": [' + b"{]" * 20):
        with pytest.raises(Unreadable):
            read_large(spilled(broken))


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize(("bound", "why"), [("_MAX_MEMBERS", "messages"), ("_MEMBER_MAX_BYTES", "in one message")])
async def test_a_long_conversation_that_cannot_be_read_is_named_and_the_others_come_in(
    run_import: Any, put: Any, monkeypatch: pytest.MonkeyPatch, bound: str, why: str
) -> None:
    monkeypatch.setattr(large_record, bound, 19)
    path = put("conversations.json", [chatgpt(conversation_id="a"), of_chatgpt(20), chatgpt(conversation_id="b")])
    found = await run_import(path)
    assert [each.outcome for each in found] == ["accepted", "failed", "accepted"]
    assert found[1].reason.startswith('record 2 ("Harbour depth") has more than ')
    assert found[1].reason.endswith(why)
