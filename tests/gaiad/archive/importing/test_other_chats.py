"""Open WebUI, LibreChat, Chatbot UI, Grok, AI Studio, and the log of the llm command."""

import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from gaiad.archive.archive import LocalArchive
from gaiad.base.ports import RequestContext
from gaiad.wire.ingest import ImportOutcome

Put = Callable[[str, Any], Path]


async def said(archive: LocalArchive, outcome: ImportOutcome) -> list[tuple[str, str]]:
    return [
        (page.speaker, page.text) for page in (await archive.packet_detail(outcome.packet_id, RequestContext())).pages
    ]


async def test_open_webui(archive: LocalArchive, run_import: Any, put: Put) -> None:
    folded = '<details type="reasoning" done="true"><summary>Thought</summary>&gt; hm</details>'
    messages = {
        "q": {"id": "q", "parentId": None, "role": "user", "content": "Depth?", "timestamp": 1_700_000_000},
        "a": {"id": "a", "parentId": "q", "role": "assistant", "content": f"{folded}Four.", "model": "m"},
        "b": {"id": "b", "parentId": "q", "role": "assistant", "content": "Five.", "timestamp": 1_700_000_009},
        "r": {"id": "r", "parentId": "a", "role": "user", "content": [{"type": "text", "text": "At ebb?"}]},
    }
    chat = {"title": "Depth", "models": ["m"], "history": {"currentId": "r", "messages": messages}}
    (outcome,) = await run_import(put("chats.json", [{"id": "w-1", "title": "Depth", "chat": chat}]))
    assert (outcome.kind, outcome.conversation_id, outcome.first_message) == (
        "open_webui",
        "w-1",
        "2023-11-14T22:13:20Z",
    )
    assert await said(archive, outcome) == [("user", "Depth?"), ("assistant", "Four."), ("user", "At ebb?")]


async def test_librechat_nested_and_flat(archive: LocalArchive, run_import: Any, put: Put) -> None:
    def told(name: str, parent: str, text: str, second: int, mine: bool = False) -> dict[str, Any]:
        stamp = f"2024-05-01T08:00:{second:02}Z"
        about = {
            "messageId": name,
            "parentMessageId": parent,
            "text": text,
            "createdAt": stamp,
            "isCreatedByUser": mine,
        }
        return about | {"sender": "User" if mine else "GPT-9"}

    export = {"conversationId": "l-1", "title": "Wind", "options": {"model": "gpt-9", "promptPrefix": "Be brief."}}
    flat = [told("q", "0", "Wind?", 1, mine=True), told("x", "q", "Calm.", 2), told("y", "q", "Gale.", 3)]
    nested = {**flat[0], "children": [flat[1], flat[2]]}
    (one,) = await run_import(put("nested.json", {**export, "recursive": True, "messages": [nested]}))
    (two,) = await run_import(put("flat.json", {**export, "conversationId": "l-2", "messages": flat}))
    expected = [("user", "Be brief."), ("user", "Wind?"), ("assistant", "Gale.")]
    assert await said(archive, one) == expected
    assert await said(archive, two) == expected
    assert (one.user_messages, one.assistant_messages, one.first_message) == (1, 1, "2024-05-01T08:00:01Z")


async def test_chatbot_ui_takes_nothing_but_its_history(run_import: Any, put: Put) -> None:
    history = [
        {"id": "h-1", "name": "Hello", "messages": [{"role": "user", "content": "Hello."}], "model": {"id": "m"}}
    ]
    export = {"version": 4, "history": history, "folders": [{"id": "f", "name": "F"}], "prompts": []}
    (outcome,) = await run_import(put("chatbot.json", export))
    assert (outcome.kind, outcome.conversation_id, outcome.user_messages) == ("chatbot_ui", "h-1", 1)


async def test_grok(archive: LocalArchive, run_import: Any, put: Put) -> None:
    def told(sender: str, text: str, ms: int) -> dict[str, Any]:
        stamp = {"$date": {"$numberLong": str(1_709_510_400_000 + ms)}}
        return {"response": {"_id": text, "sender": sender, "message": text, "create_time": stamp, "model": "grok-9"}}

    mark = '<grok:render type="render_inline_citation"><argument name="citation_id">3</argument></grok:render>'
    about = {"id": "x-1", "title": "Mast", "create_time": "2024-03-04T00:00:00.000Z"}
    export = {
        "conversations": [
            {"conversation": about, "responses": [told("ASSISTANT", f"Ash {mark}.", 9), told("human", "Wood?", 1)]}
        ]
    }
    (outcome,) = await run_import(put("prod-grok-backend.json", {**export, "projects": [], "tasks": []}))
    assert (outcome.kind, outcome.title, outcome.last_message) == ("grok", "Mast", "2024-03-04T00:00:00.009Z")
    assert await said(archive, outcome) == [("user", "Wood?"), ("assistant", "Ash.")]


async def test_ai_studio(archive: LocalArchive, run_import: Any, put: Put) -> None:
    chunks = [
        {"role": "user", "parts": [{"text": "Look."}], "driveImage": {"id": "file-1"}},
        {"role": "model", "text": "Hm.", "isThought": True},
        {"id": "old", "role": "model", "text": "A cat.", "branchChildren": [{"id": "new"}]},
        {"id": "new", "role": "model", "text": "A dog."},
    ]
    prompt = {
        "runSettings": {"model": "models/gemini-9"},
        "systemInstruction": {"text": "Be brief."},
        "chunkedPrompt": {"chunks": chunks},
    }
    (outcome,) = await run_import(put("Naming animals", prompt))
    assert (outcome.kind, outcome.title, outcome.left_out) == ("ai_studio", "Naming animals", {"thoughts": 1})
    assert await said(archive, outcome) == [
        ("user", "Be brief."),
        ("user", "Look.\n\n[image: file-1]"),
        ("assistant", "A dog."),
    ]


async def test_the_llm_log_of_both_schemas(archive: LocalArchive, run_import: Any, tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with closing(sqlite3.connect(old)) as database:
        database.executescript("""
            CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
            CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, response TEXT,
                conversation_id TEXT, datetime_utc TEXT);
            INSERT INTO conversations VALUES ('v-1', 'Tides', 'm');
            INSERT INTO responses VALUES ('r-2', 'm', 'Second?', NULL, 'Two.', 'v-1', '2025-01-02T00:00:00');
            INSERT INTO responses VALUES ('r-1', 'm', 'First?', 'Be brief.', 'One.', 'v-1', '2025-01-01T00:00:00');
            INSERT INTO responses VALUES ('r-3', 'm', 'Alone?', NULL, 'Yes.', NULL, '2025-01-03T00:00:00');
        """)
    with closing(sqlite3.connect(new)) as database:
        database.executescript("""
            CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, datetime_utc TEXT);
            CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT,
                model TEXT, resolved_model TEXT, datetime_utc TEXT);
            CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT);
            CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, text TEXT);
            INSERT INTO threads VALUES ('t-1', 'Knots', 'h2', '2025-02-01T00:00:00+00:00');
            INSERT INTO turns VALUES ('u-1', 't-1', 'h1', 'h2', 'm', NULL, '2025-02-01T00:00:00+00:00');
            INSERT INTO messages VALUES ('h1', NULL, 'user'), ('h2', 'h1', 'assistant');
            INSERT INTO parts (message_hash, position, type, text) VALUES
                ('h1', 0, 'text', 'Which knot?'), ('h2', 0, 'reasoning', 'hm'), ('h2', 1, 'text', 'A bowline.');
        """)
    outcomes = await run_import(old, new)
    assert [(each.conversation_id, each.title, each.user_messages, each.first_message) for each in outcomes] == [
        ("r-3", "Alone?", 1, "2025-01-03T00:00:00Z"),
        ("v-1", "Tides", 2, "2025-01-01T00:00:00Z"),
        ("t-1", "Knots", 1, "2025-02-01T00:00:00Z"),
    ]
    assert [text for _, text in await said(archive, outcomes[1])] == ["Be brief.", "First?", "One.", "Second?", "Two."]
    assert await said(archive, outcomes[2]) == [("user", "Which knot?"), ("assistant", "A bowline.")]
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as made:
        made.write(old, "logs.db")
        made.writestr("note.md", "# Rope")
    packed = await run_import(tmp_path / "logs.zip")
    assert [each.outcome for each in packed] == ["duplicate", "duplicate", "accepted"]
