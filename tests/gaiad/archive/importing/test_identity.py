"""Identity by the source's conversation id: what is imported again, in whatever order, doubles and shrinks nothing."""

import itertools
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.importer import ImportOptions
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import ForgetRequest, PacketFilter
from tests.makers.exports import chatgpt
from tests.makers.exports import chatgpt_node as node

Put = Callable[[str, Any], Path]


def grown(**fields: Any) -> dict[str, Any]:
    """The conversation of `chatgpt()` a month later, with one more question."""
    first = chatgpt()["mapping"]
    more = node("q2", "a", "user", "And at high tide?", 30 * 86_400)
    return chatgpt(first["q"], first["a"], more, **{"update_time": 1_712_200_000.0, **fields})


async def contents(archive: LocalArchive) -> list[tuple[str, str, list[str]]]:
    found = await archive.list_packets(PacketFilter(), RequestContext())
    details = [await archive.packet_detail(each.packet_id, RequestContext()) for each in found]
    return sorted((each.packet.packet_id, each.packet.topic, [page.text for page in each.pages]) for each in details)


async def test_a_second_import_adds_what_is_new_revises_what_changed_and_doubles_nothing(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    await run_import(put("march.json", [chatgpt(), chatgpt(conversation_id="c-2")]))
    april = put("april.json", [grown(), chatgpt(conversation_id="c-2"), chatgpt(conversation_id="c-3")])
    outcomes = await run_import(april, import_id="imp_2")
    assert [each.outcome for each in outcomes] == ["revised", "duplicate", "accepted"]
    assert [each.outcome for each in await run_import(april, import_id="imp_3")] == ["duplicate"] * 3
    assert (await archive.counts())["packets"] == 3


async def test_a_last_message_that_grew_is_a_newer_state_though_time_and_number_are_the_same(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    def line(text: str) -> dict[str, Any]:
        message = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": text}]}
        return {"type": "assistant", "sessionId": "s", "timestamp": "2026-01-01T10:00:00Z", "message": message}

    words = [line(f"Word {number}.") for number in range(6)]
    for count, outcome in ((1, "accepted"), (4, "revised"), (2, "duplicate"), (6, "revised"), (5, "duplicate")):
        (found,) = await run_import(put("s.jsonl", words[:count]), import_id=f"imp_{count}")
        assert found.outcome == outcome
    ((_, _, texts),) = await contents(archive)
    assert texts[0].endswith("Word 5.")


async def test_an_older_export_imported_later_takes_nothing_back(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    await run_import(put("april.json", [grown()]))
    (outcome,) = await run_import(put("march.json", [chatgpt()]), import_id="imp_2")
    assert outcome.outcome == "duplicate"
    ((_, _, texts),) = await contents(archive)
    assert texts[-1] == "And at high tide?"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_parts_in_any_order_make_the_same_archive(
    archive: LocalArchive, run_import: Any, put: Put, order: tuple[int, ...]
) -> None:
    parts = [
        put("conversations-000.json", [chatgpt(), chatgpt(conversation_id="c-2")]),
        put("conversations-001.json", [grown()]),
        put("conversations-002.json", [chatgpt(conversation_id="c-3", title="Third")]),
    ]
    for number in order:
        await run_import(parts[number], import_id=f"imp_{number}")
    assert [(name, title, len(texts)) for name, title, texts in await contents(archive)] == [
        ("chatgpt-c-1", "Harbour depth", 3),
        ("chatgpt-c-2", "Harbour depth", 2),
        ("chatgpt-c-3", "Third", 2),
    ]


async def test_another_conversation_under_the_same_id_takes_no_place(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    other = chatgpt(node("x", "root", "user", "Unrelated.", 9e6), title="Other", update_time=1_800_000_000.0)
    outcomes = await run_import(put("a.json", [chatgpt(), other]), put("b.json", [chatgpt(), other]))
    assert [each.outcome for each in outcomes] == ["accepted", "accepted", "duplicate", "duplicate"]
    assert len({each.packet_id for each in outcomes}) == 2
    assert sorted(title for _, title, _ in await contents(archive)) == ["Harbour depth", "Other"]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_which_of_two_under_one_id_has_it_plain_does_not_depend_on_their_order(
    archive: LocalArchive, run_import: Any, put: Put, order: str, apart: bool
) -> None:
    about = {"content_type": "user_editable_context", "user_instructions": "Be brief."}
    context = node("c", "root", "user", "", content=about)
    first = chatgpt(context, node("q", "c", "user", "How deep?"), node("a", "q", "assistant", "Four metres."))
    other = chatgpt(context, node("x", "c", "user", "Unrelated."), title="Other", update_time=1_800_000_000.0)
    parts = {"a": put("a.json", [first]), "b": put("b.json", [other])}
    for group in order if apart else [order]:
        await run_import(*(parts[name] for name in group), import_id=f"imp_{group}")
    assert [(name, title) for name, title, _ in await contents(archive)] == [
        ("chatgpt-c-1", "Harbour depth"),
        ("chatgpt-c-1-2d711642", "Other"),
    ]


def talks(source: Random) -> list[dict[str, Any]]:
    """States of one to four conversations, all under one or two ids, each as it was after some of its messages."""
    states = []
    for number in range(source.randint(1, 4)):
        rows = [
            node(
                f"{number}-{row}", f"{number}-{row - 1}", ("user", "assistant")[row % 2], f"{number} {row}", 60.0 * row
            )
            for row in range(source.randint(1, 4))
        ]
        name = source.choice(("c-1", "c-1", "c-2"))
        for count in source.sample(range(1, len(rows) + 1), source.randint(1, len(rows))):
            states.append(chatgpt(*rows[:count], conversation_id=name, title=str(number), update_time=60.0 * count))
    return states


@pytest.mark.parametrize("seed", range(40))
async def test_the_archive_is_the_same_in_whatever_order_and_steps_the_states_of_conversations_come(
    open_archive: Any, put: Put, tmp_path: Path, seed: int
) -> None:
    source = Random(seed)
    states = talks(source)
    found = []
    for turn in range(3):
        archive = await open_archive(tmp_path / f"home-{turn}")
        source.shuffle(states)
        cuts = sorted(source.sample(range(len(states) + 1), min(turn, len(states))))
        for number, (begin, end) in enumerate(itertools.pairwise([0, *cuts, len(states)])):
            path = put(f"{turn}-{number}.json", states[begin:end])
            options = ImportOptions(f"imp_{number}")
            async for _ in archive.import_paths([path], options, RequestContext(), {}):
                pass
        found.append(await contents(archive))
        assert (await archive.verify_packets(None, RequestContext())).problems == []
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == len({(each["conversation_id"], each["title"]) for each in states})


async def test_what_an_old_answer_cites_stays_citable_when_its_conversation_gives_up_its_id(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    other = chatgpt(node("x", "root", "user", "Unrelated."), title="Other")
    await run_import(put("b.json", [other]))
    (page,) = (await archive.packet_detail("chatgpt-c-1", RequestContext())).pages
    await run_import(put("a.json", [chatgpt()]), import_id="imp_2")
    assert [each.text for each in await archive.pages([page.page_id], RequestContext())] == ["Unrelated."]


async def test_a_zip_is_read_in_place_and_a_dry_run_stores_nothing(
    archive: LocalArchive, run_import: Any, put: Put, tmp_path: Path
) -> None:
    inner = put("conversations.json", [chatgpt()])
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.write(inner, "conversations.json")
        made.writestr("user.json", "{}")
        made.writestr("../../outside.png", b"\x89PNG\0")
    dry = await run_import(path, dry_run=True)
    assert sorted(each.outcome for each in dry) == ["accepted", "ignored", "ignored"]
    assert (await archive.counts())["packets"] == 0
    assert [each.outcome for each in await run_import(path) if each.kind] == ["accepted"]
    assert not (tmp_path.parent / "outside.png").exists()


async def test_the_original_and_everything_derived_of_it_hold_against_each_other(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    await run_import(put("a.json", [chatgpt(), grown(conversation_id="c-2")]))
    assert (await archive.verify_packets(None, RequestContext())).problems == []
    report = await archive.reindex(RequestContext(), lambda _done, _total: None)
    assert (report["pages_changed"], report["problems"]) == (0, [])


async def test_an_import_that_came_back_by_undo_can_be_deleted_again(
    run_import: Any, put: Put, archive: LocalArchive
) -> None:
    call, request = RequestContext(), ForgetRequest(import_id="imp_1")
    await run_import(put("march.json", [chatgpt()]))
    for attempt in ("fgt_1", "fgt_2"):
        assert (await archive.deletion.forget(request, attempt, call)).packets == 1
        assert await archive.deletion.undo(attempt, call) == 1


async def test_an_imported_conversation_deleted_as_a_session_stays_away_too(
    run_import: Any, put: Put, archive: LocalArchive
) -> None:
    export = put("march.json", [chatgpt()])
    (outcome,) = await run_import(export)
    request = ForgetRequest(session_ids=[outcome.packet_id])
    assert (await archive.deletion.forget(request, "fgt_1", RequestContext())).packets == 1
    assert [each.outcome for each in await run_import(export, import_id="imp_2")] == ["ignored"]
    assert [each.outcome for each in await run_import(export, import_id="imp_3", again=True)] == ["accepted"]
