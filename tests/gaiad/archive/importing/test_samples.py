"""Real exports, read by the importers and counted by other means here; skipped where they are not beside the checkout.

The counters below share no code with the importers: they are what a person would write who reads the files by eye.
"""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.ports import RequestContext
from gaiad.wire.ingest import ImportOutcome
from gaiad.wire.schemas import PacketFilter

ROOT = Path(__file__).resolve().parents[4]
EXPORTS = Path(os.environ.get("GAIAD_SHARED_DATA", str(ROOT.parent / "shared" / "data"))) / "exports"
pytestmark = pytest.mark.skipif(not EXPORTS.is_dir(), reason="the real exports are not beside this checkout")

Counted = tuple[str, str, int, int]  # title, first second, user and assistant messages


def chatgpt(path: Path) -> Iterator[Counted]:
    """Along the parents from the current node; where that is missing, from the leaf with the highest time."""
    for conversation in json.loads(path.read_text()):
        mapping = conversation["mapping"]
        node = conversation["current_node"]
        if node not in mapping:
            inner = {each.get("parent") for each in mapping.values()}
            node = max(set(mapping) - inner, key=lambda name: mapping[name]["message"]["create_time"] or 0)
        found = []
        while node in mapping:
            message = mapping[node].get("message")
            if message and is_seen_in_chatgpt(message):
                found.append((message["author"]["role"], message["create_time"]))
            node = mapping[node].get("parent")
        roles = [role for role, _ in found]
        first = min(time for _, time in found)
        stamp = datetime.fromtimestamp(first, UTC).isoformat()[:19]
        yield conversation["title"], stamp, roles.count("user"), roles.count("assistant")


def is_seen_in_chatgpt(message: dict[str, Any]) -> bool:
    content = message["content"]
    has_text = any(part for part in content.get("parts", [])) or bool(content.get("text"))
    return (
        message["author"]["role"] in ("user", "assistant")
        and message.get("recipient", "all") == "all"
        and content["content_type"] in ("text", "multimodal_text", "code")
        and not (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
        and has_text
    )


def claude_ai(path: Path) -> Iterator[Counted]:
    export = json.loads(path.read_text())
    conversations = export if isinstance(export, list) else export.get("conversations", [export])
    for conversation in conversations:
        found = []
        for message in filter(None, conversation["chat_messages"]):
            blocks = message.get("content", [])
            words = "".join(block.get("text") or "" for block in blocks) + (message.get("text") or "")
            if words.strip() or any(block["type"] == "tool_use" for block in blocks):
                found.append((message["sender"], message["created_at"]))
        if found:
            senders = [sender for sender, _ in found]
            first = min(time for _, time in found)[:19]
            yield conversation["name"], first, senders.count("human"), senders.count("assistant")


def claude_code(path: Path) -> Iterator[Counted]:
    said: dict[tuple[str, str], str] = {}
    for line in map(json.loads, filter(None, path.read_text().split("\n"))):
        message = line.get("message")
        flags = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
        if line["type"] not in ("user", "assistant") or any(line.get(flag) for flag in flags):
            continue
        content = message["content"]
        texts = (
            [content]
            if isinstance(content, str)
            else [each.get("text") or "" for each in content if each["type"] == "text"]
        )
        words = "".join(texts).strip()
        if words and not re.match(r"<(command|local-command)|\[Request interrupted|Caveat:", words):
            said.setdefault((line["type"], message.get("id") or line["uuid"]), line["timestamp"])
    if said:
        roles = [role for role, _ in said]
        yield "", min(said.values())[:19], roles.count("user"), roles.count("assistant")


async def imported(run_import: Any, path: Path, **options: Any) -> list[ImportOutcome]:
    return [each for each in await run_import(path, **options) if each.packet_id]


@pytest.mark.parametrize(
    ("folder", "count", "pattern"),
    [("chatgpt", chatgpt, "*.json"), ("claude_ai", claude_ai, "*.json"), ("claude_code", claude_code, "*.jsonl")],
)
async def test_conversations_titles_dates_and_messages_are_those_counted_here(
    run_import: Any, folder: str, count: Any, pattern: str
) -> None:
    for path in sorted((EXPORTS / folder).rglob(pattern)):
        outcomes = await imported(run_import, path)
        found = [
            (each.title, each.first_message[:19], each.user_messages, each.assistant_messages) for each in outcomes
        ]
        if path.parent.name == "agent-sessions":
            continue  # a catalogue of record kinds, its words and times cut away
        expected = list(count(path))
        assert [row[1:] for row in found] == [row[1:] for row in expected], path
        assert all(mine == theirs for (mine, *_), (theirs, *_) in zip(found, expected, strict=True) if theirs), path


SEEN = {  # (kind, first second, user messages, assistant messages), counted by eye
    "codex/agtrace/rollout-codex_session.jsonl": [("codex", "2025-12-09T19:55:18", 2, 2)],
    "codex/codex-log-viewer/interaction-detail.jsonl": [("codex", "2026-04-29T12:00:03", 2, 2)],
    "codex/codex-log-viewer/sample-session.jsonl": [("codex", "2026-04-27T19:01:00", 1, 1)],
    "gemini/agent-sessions/jsonl_v040.jsonl": [("gemini_cli", "2026-04-29T21:39:33", 1, 1)],
    "gemini/agent-sessions/large.json": [("gemini_cli", "2025-12-16T23:47:01", 2, 2)],
    "notes/specstory/2026-01-16_16-48-38Z-the-code-in-specstory.md": [("specstory", "2026-01-16T16:48:38", 8, 20)],
    "gemini/agtrace/session-gemini_session.json": [("gemini_cli", "2025-12-09T19:51:29", 2, 7)],
    "gemini/takeout/OpenArchive/MyActivity.json": [("gemini_takeout", "2026-03-14T19:50:59", 1, 1)],
    "other/LibreChat/librechat-export.json": [("librechat", "2024-04-09T14:32:05", 3, 3)],
    "other/LibreChat/librechat-opts-nonr-branches.json": [("librechat", "2024-05-28T18:14:07", 1, 1)],
    "other/LibreChat/librechat-tree.json": [("librechat", "2024-05-01T16:35:11", 2, 2)],
    "other/polylogue/gemini-aistudio-branching.json": [("ai_studio", "2025-02-01T13:00:02", 1, 2)],
    "other/llm/logs-0.36.db": [("llm", "2025-11-06T17:48:38", 1, 1), ("llm", "2025-11-15T15:33:47", 2, 2)],
    "notes/llm-logs/2025-11-06-llm-log.md": [("llm", "2025-11-06T17:48:38", 1, 1)],
}


@pytest.mark.parametrize("name", SEEN)
async def test_other_kinds_are_as_they_were_counted_by_eye(run_import: Any, name: str) -> None:
    outcomes = await imported(run_import, EXPORTS / name)
    found = [(each.kind, each.first_message[:19], each.user_messages, each.assistant_messages) for each in outcomes]
    assert found == SEEN[name]


async def contents(archive: LocalArchive) -> list[tuple[str, int, str]]:
    found = await archive.list_packets(PacketFilter(limit=500), RequestContext())
    return sorted((each.topic, each.pages, each.timestamp) for each in found)


async def test_twice_adds_nothing_and_shuffled_files_make_the_same_archive(open_archive: Any, tmp_path: Path) -> None:
    from gaiad.archive.importing.importer import ImportOptions

    files = sorted(path for path in EXPORTS.rglob("*.*") if path.is_file() and path.name != "SOURCES.md")
    archives = []
    for number in range(2):
        archive = await open_archive(tmp_path / f"home-{number}")
        if number:
            Random(number).shuffle(files)
        async for _ in archive.import_paths(files, ImportOptions("imp_1"), RequestContext(), {}):
            pass
        archives.append(archive)
    first, second = [await contents(archive) for archive in archives]
    assert first == second
    again = archives[0].import_paths(files, ImportOptions("imp_2"), RequestContext(), {})
    outcomes = [outcome.outcome async for step in again for outcome in step.outcomes]
    assert not {"accepted", "revised"} & set(outcomes)
    assert (await archives[0].verify_packets(None, RequestContext())).problems == []
