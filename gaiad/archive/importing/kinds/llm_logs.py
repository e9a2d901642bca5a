"""The log of the `llm` command: logs.db in both schemas (conversations and responses; threads, turns and messages)."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import msgspec

from gaiad.archive.importing.json_stream import Unreadable, lenient_text
from gaiad.archive.importing.kind import Item, Kind, as_text, joined, named
from gaiad.archive.importing.sample import Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

Row = dict[str, Any]
_UNPACKED_MAX_BYTES = 64 * 1024 * 1024


def _recognises(sample: Sample) -> bool:
    if sample.form != "sqlite":
        return False
    if sample.source.path is None and not (b"responses" in sample.head or b"threads" in sample.head):
        return False  # not worth unpacking
    with closing(_open(sample)) as database:
        tables = _tables(database)
    return {"conversations", "responses"} <= tables or {"threads", "turns", "messages", "parts"} <= tables


def _open(sample: Sample) -> sqlite3.Connection:
    if sample.source.path is None:
        database = _unpacked(sample)
    else:
        database = sqlite3.connect(f"file:{quote(str(sample.source.path))}?mode=ro", uri=True, check_same_thread=False)
    database.row_factory = lambda cursor, row: dict(zip((each[0] for each in cursor.description), row, strict=True))
    database.text_factory = lenient_text
    return database


def _unpacked(sample: Sample) -> sqlite3.Connection:
    """A database inside an archive, in memory. Raises Unreadable for one that is too large for that."""
    data = bytearray(sample.source.raw_bytes(_UNPACKED_MAX_BYTES))
    data[18:20] = b"\1\1"  # not as a write-ahead log: there is no file beside it
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.deserialize(bytes(data))
    return database


def _tables(database: sqlite3.Connection) -> set[str]:
    try:
        return {row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise Unreadable(f"is a damaged database ({error})") from error


def _read(sample: Sample) -> Iterator[Item]:
    with closing(_open(sample)) as database:
        tables, done = _tables(database), set[str]()
        try:
            if {"threads", "turns", "messages", "parts"} <= tables:
                for thread in database.execute("SELECT * FROM threads ORDER BY id"):
                    done.add(thread["id"])
                    yield _thread(database, thread)
            if {"conversations", "responses"} <= tables:
                yield from _responses(database, done)
        except sqlite3.Error as error:
            raise Unreadable(f"is a damaged database ({error})") from error


def _thread(database: sqlite3.Connection, thread: Row) -> Conversation:
    turns = database.execute("SELECT * FROM turns WHERE thread_id = ? ORDER BY id", (thread["id"],)).fetchall()
    times = {
        turn[key]: iso_time(turn["datetime_utc"])
        for turn in turns
        for key in ("parent_message_hash", "tip_message_hash")
    }
    models = {turn["tip_message_hash"]: as_text(turn["resolved_model"]) or as_text(turn["model"]) for turn in turns}
    rows: list[Row] = []
    seen: set[str] = set()
    name = thread["tip_message_hash"] or (turns[-1]["tip_message_hash"] if turns else None)
    while name and name not in seen:
        seen.add(name)
        row = database.execute("SELECT * FROM messages WHERE hash = ?", (name,)).fetchone()
        if row is None:
            break
        row["parts"] = database.execute(
            "SELECT * FROM parts WHERE message_hash = ? ORDER BY position", (name,)
        ).fetchall()
        rows.append(row)
        name = row["parent_hash"]
    rows.reverse()
    messages = [
        Message(
            id=row["hash"],
            speaker="user" if row["role"] in ("user", "system") else "assistant",
            text=text,
            time=times.get(row["hash"], ""),
            model=models.get(row["hash"], ""),
            part="instructions" if row["role"] == "system" else "transcript",
            parent=as_text(row["parent_hash"]),
        )
        for row in rows
        if row["role"] in ("user", "system", "assistant")
        and (text := joined(as_text(part["text"]) for part in row["parts"] if part["type"] == "text"))
    ]
    return Conversation(
        kind="llm",
        id=thread["id"],
        title=as_text(thread["name"]),
        messages=messages,
        raw=_raw({"thread": thread, "turns": turns, "messages": rows}),
        created=iso_time(thread["datetime_utc"]),
        model=next((model for model in reversed(models.values()) if model), ""),
    )


def _responses(database: sqlite3.Connection, done: set[str]) -> Iterator[Conversation]:
    """One conversation after the other; a response of none is a conversation of its own."""
    conversations = {row["id"]: row for row in database.execute("SELECT * FROM conversations")}
    rows: list[Row] = []
    for row in database.execute("SELECT * FROM responses ORDER BY ifnull(conversation_id, id), datetime_utc, id"):
        if rows and _owner(row) != _owner(rows[0]):
            yield from _of_responses(database, conversations, rows, done)
            rows = []
        rows.append(row)
    if rows:
        yield from _of_responses(database, conversations, rows, done)


def _owner(row: Row) -> str:
    return as_text(row["conversation_id"]) or as_text(row["id"])


def _of_responses(
    database: sqlite3.Connection, conversations: dict[str, Row], rows: list[Row], done: set[str]
) -> Iterator[Conversation]:
    owner = _owner(rows[0])
    if owner in done:
        return
    about = conversations.get(owner, {})
    system = next((as_text(row.get("system")) for row in rows if as_text(row.get("system")).strip()), "")
    messages = [Message(id="instructions", speaker="user", text=system, part="instructions")] if system else []
    for row in rows:
        time, model = iso_time(row.get("datetime_utc")), as_text(row.get("resolved_model")) or as_text(row.get("model"))
        files = [*_fragments(database, row["id"]), *_attachments(database, row["id"])]
        prompt = joined((as_text(row.get("prompt")), "\n".join(files)))
        for speaker, text in (("user", prompt), ("assistant", as_text(row.get("response")))):
            if text.strip():
                said_by = model if speaker == "assistant" else ""
                messages.append(
                    Message(id=f"{row['id']}-{speaker}", speaker=speaker, text=text, time=time, model=said_by)
                )
    yield Conversation(
        kind="llm",
        id=owner,
        title=as_text(about.get("name")),
        messages=messages,
        raw=_raw({"conversation": about, "responses": rows}),
        model=as_text(about.get("model")) or as_text(rows[-1].get("model")),
    )


def _fragments(database: sqlite3.Connection, response: str) -> list[str]:
    """Files and pages given with a prompt, by name."""
    try:
        rows = database.execute(
            "SELECT f.source FROM prompt_fragments p JOIN fragments f ON f.id = p.fragment_id"
            ' WHERE p.response_id = ? ORDER BY p."order"',
            (response,),
        ).fetchall()
    except sqlite3.OperationalError:  # a log from before fragments
        return []
    return [named("file", as_text(row["source"])) for row in rows]


def _attachments(database: sqlite3.Connection, response: str) -> list[str]:
    try:
        rows = database.execute(
            "SELECT a.type, a.path, a.url FROM prompt_attachments p JOIN attachments a ON a.id = p.attachment_id"
            ' WHERE p.response_id = ? ORDER BY p."order"',
            (response,),
        ).fetchall()
    except sqlite3.OperationalError:  # a log from before attachments
        return []
    return [
        named(
            "image" if as_text(row["type"]).startswith("image/") else "file",
            as_text(row["path"] or row["url"]) or as_text(row["type"]),
        )
        for row in rows
    ]


def _raw(rows: Any) -> bytes:
    return msgspec.json.encode(rows)


LLM_LOGS = Kind("llm", "log of the llm command", _recognises, _read)
