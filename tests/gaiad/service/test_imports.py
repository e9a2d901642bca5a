"""Imports as the service does them: over the command line, as an upload, by the inbox; and what quarantine keeps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.conversation_store import EMPTY
from gaiad.archive.importing.importer import ImportOptions
from gaiad.base.errors import NotFound
from gaiad.base.ports import RequestContext
from gaiad.service.imports import ImportTally
from gaiad.wire.ingest import ImportOutcome
from tests.makers.exports import chatgpt


async def outcomes_of(archive: LocalArchive, path: Path, options: ImportOptions, cursor: dict[str, Any]) -> list[str]:
    return [
        outcome.outcome
        async for step in archive.import_paths([path], options, RequestContext(), cursor)
        for outcome in step.outcomes
    ]


async def test_an_import_broken_off_anywhere_goes_on_and_tells_each_conversation_once(
    open_archive: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(conversation_id=f"c-{number}") for number in range(150)]))
    archive = await open_archive()
    told: list[str] = []
    cursor: dict[str, Any] = {}
    steps = 0
    while True:  # every run is broken off after its first step, told or not; the last one comes to the end
        options = ImportOptions("imp_1", resumed=steps > 0)
        ended = True
        async for step in archive.import_paths([path], options, RequestContext(), cursor):
            steps += 1
            ended = not step.outcomes
            if steps % 2:
                break  # stored, and killed before that was recorded
            told += [outcome.outcome for outcome in step.outcomes]
            cursor = step.cursor
            if not ended:
                break
        if ended:
            break
    assert told == ["accepted"] * 150
    assert (await archive.counts())["packets"] == 150


def test_the_summary_proposes_questions_that_a_person_would_ask() -> None:
    def brought(kind: str, title: str, said: int, first: str = "2024-03-04T00:00:00Z") -> ImportOutcome:
        rest = {"last_message": first, "packet_id": "p", "outcome": "accepted", "path": "f", "conversation_id": "c"}
        return ImportOutcome(
            kind=kind, title=title, first_message=first, user_messages=said, assistant_messages=said, **rest
        )

    tally = ImportTally()
    for outcome in (
        brought("specstory", "the code in my notes", 90),
        brought("chatgpt", "Hello", 80),
        brought("chatgpt", "Fix src/pump.py for the bilge", 70),
        brought("chatgpt", "Painting the hull", 60),
        brought("claude_ai", "How deep is the harbour?", 50, "2024-05-01T00:00:00Z"),
        brought("packet", "A record", 0),
        brought("note", "Rope", 0),
    ):
        tally.add(outcome)
    summary = tally.summary(dry_run=False)
    assert (summary.conversations, summary.notes, summary.packets) == (5, 1, 1)
    assert summary.questions == [
        'What did we say about "Painting the hull"?',
        "How deep is the harbour?",
        "What did we talk about in March 2024?",
    ]


def test_what_is_left_out_is_counted_by_what_it_is() -> None:
    def ignored(reason: str, line: int = 0, conversation_id: str = "") -> ImportOutcome:
        texts = dict.fromkeys(("kind", "title", "first_message", "last_message", "packet_id"), "")
        return ImportOutcome(
            **texts,
            conversation_id=conversation_id,
            user_messages=0,
            assistant_messages=0,
            outcome="ignored",
            reason=reason,
            line=line,
        )

    tally = ImportTally()
    for outcome in (
        ignored("line 3 is not JSON", 3),
        ignored("belongs to the export but has no conversations"),
        ignored(EMPTY.reason, conversation_id="c-1"),
        ignored(EMPTY.reason, conversation_id="c-2"),
    ):
        tally.add(outcome)
    assert tally.left_out == {"lines that cannot be read": 1, "other files": 1, "empty conversations": 2}


async def test_which_files_of_a_folder_are_exports(open_archive: Callable[..., Any], tmp_path: Path) -> None:
    archive = await open_archive()
    contents = {
        "chats.json": json.dumps([chatgpt()]),
        "packet.json": json.dumps({"header": {"id": "TP-9"}, "behavior_profile": {}, "body": {}}),
        "note.md": "# Rope\n\nHemp.\n",
        "log.jsonl": '{"a": 1}\n',
        "letter.txt": "Dear Anna",
    }
    paths = []
    for name, text in contents.items():
        paths.append(tmp_path / name)
        paths[-1].write_text(text)
    found = await archive.exports_among(paths, RequestContext())
    assert {path.name: bool(reason) for path, reason in found.items()} == {
        "chats.json": False,
        "note.md": False,
        "log.jsonl": True,
    }


async def test_quarantine_shows_and_drops_what_it_keeps(open_archive: Callable[..., Any], tmp_path: Path) -> None:
    archive = await open_archive()
    path = tmp_path / "bad.json"
    path.write_text(json.dumps([{"id": 1, "messages": [{"role": "user", "content": "Hello."}]}]))
    (outcome,) = await archive.ingest_files([path], RequestContext())
    assert (outcome.outcome, "holds many conversations" in outcome.reason) == ("quarantined", True)
    (row,) = await archive.quarantined(RequestContext())
    shown, kept = await archive.quarantined_file(row["id"], RequestContext())
    assert (shown, kept) == (row, path.read_bytes())
    await archive.drop_quarantined(row["id"], RequestContext())
    assert (await archive.quarantined(RequestContext()), (await archive.counts())["quarantined"]) == ([], 0)
    with pytest.raises(NotFound):
        await archive.drop_quarantined(row["id"], RequestContext())
