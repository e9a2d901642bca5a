"""Gemini CLI's chats: one JSON object, or JSONL with a header, messages told again, `$set` and `$rewindTo`.

Besides them it writes checkpoints (what was said, without times) and, in logs.json, every prompt once more.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from gaiad.archive.importing.kind import Item, Kind, SourceLines, as_dict, as_text, check_words, dicts, joined, named
from gaiad.archive.importing.sample import Problem, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_SPEAKERS = {"user": "user", "gemini": "assistant", "model": "assistant"}
_REFERENCED = re.compile(
    r"\s*^--- Content from referenced files ---$.*?(?:^--- End of content ---$|\Z)", re.DOTALL | re.MULTILINE
)
_SET_UP = ("This is the Gemini CLI. We are setting up the context for our chat", "Got it. Thanks for the context!")


def _recognises(sample: Sample) -> bool:
    if sample.form == "object":
        return sample.whole is not None and _is_chat(sample.whole.value)
    values = [as_dict(record.value) for record in sample.first]
    headed = any("sessionId" in value and ("projectHash" in value or "startTime" in value) for value in values)
    said = any(_is_message(value) or "$set" in value for value in values)
    return sample.form == "lines" and headed and said


def _is_chat(value: Any) -> bool:
    chat = as_dict(value)
    messages = dicts(chat.get("messages"))
    return (
        "sessionId" in chat
        and isinstance(chat.get("messages"), list)
        and ("projectHash" in chat or "startTime" in chat or bool(messages))
        and (not messages or any(each.get("type") in _SPEAKERS and "content" in each for each in messages))
    )


def _is_message(value: dict[str, Any]) -> bool:
    return (
        value.get("type") in (*_SPEAKERS, "info", "error", "warning")
        and "id" in value
        and ("content" in value or "parts" in value)
    )


def _read(sample: Sample) -> Iterator[Item]:
    header: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    rewound: dict[str, dict[str, Any]] = {}
    raw, left_out, words = SourceLines(), Counter[str](), 0
    records = [sample.whole] if sample.form == "object" and sample.whole else sample.records()
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        raw.add(record.raw)
        value = as_dict(record.value)
        words += len(record.raw) if _is_message(value) and value["id"] not in messages else 0
        check_words(words)
        if isinstance(value.get("$rewindTo"), str):
            _rewind(messages, rewound, value["$rewindTo"])
        elif _is_message(value):
            messages[as_text(value["id"])] = value
        else:
            patch = as_dict(value.get("$set")) or value
            header |= {name: each for name, each in patch.items() if name != "messages"}
            for each in dicts(patch.get("messages")):
                name = as_text(each.get("id")) or f"message-{len(messages)}"
                messages[name] = each  # a shortened context takes nothing from what was said
    if header.get("kind") == "subagent":
        yield Problem("the file", "is a subagent's session without your words", loses=False)
        return
    yield _conversation(sample, header, messages, rewound, raw.record(left_out).removesuffix(b"\n"), left_out)


def _rewind(messages: dict[str, dict[str, Any]], rewound: dict[str, dict[str, Any]], target: str) -> None:
    """Take back the message `target` and all after it."""
    ids = list(messages)
    for name in ids[ids.index(target) :] if target in messages else ids:
        rewound[name] = messages.pop(name)


def _conversation(
    sample: Sample,
    header: dict[str, Any],
    messages: dict[str, dict[str, Any]],
    rewound: dict[str, dict[str, Any]],
    raw: bytes,
    left_out: Counter[str],
) -> Conversation:
    said = [message for name, each in messages.items() for message in _messages(name, each, left_out)]
    models = [each.model for each in said if each.model]
    return Conversation(
        kind="gemini_cli",
        id=as_text(header.get("sessionId")) or sample.source.name,
        title=as_text(header.get("summary")),
        messages=said,
        raw=raw,
        created=iso_time(header.get("startTime")),
        updated=iso_time(header.get("lastUpdated")),
        model=models[-1] if models else "",
        alternatives=[message for name, each in rewound.items() for message in _messages(name, each, Counter())],
        left_out=dict(left_out),
    )


def _messages(name: str, given: dict[str, Any], left_out: Counter[str]) -> Iterator[Message]:
    speaker, time = _SPEAKERS.get(as_text(given.get("type"))), iso_time(given.get("timestamp"))
    if speaker is None:
        left_out["notes of the program"] += 1
        return
    left_out["thoughts"] += len(dicts(given.get("thoughts")))
    if not left_out["thoughts"]:
        del left_out["thoughts"]
    text = next((text for key in ("displayContent", "content", "parts") if (text := _text(given.get(key)))), "")
    text = _REFERENCED.sub("", text) if speaker == "user" else text
    if text:
        model = as_text(given.get("model")) if speaker == "assistant" else ""
        yield Message(id=name, speaker=speaker, text=text, time=time, model=model)
    calls = [
        f"{as_text(each.get('displayName')) or as_text(each.get('name'))}: {_argument(each)}"
        for each in dicts(given.get("toolCalls"))
    ]
    if calls:
        yield Message(id=f"{name}/tools", speaker="tool", text="\n".join(calls), time=time, part="artifact")


def _argument(call: dict[str, Any]) -> str:
    if described := as_text(call.get("description")):
        return described
    given = as_dict(call.get("args"))
    return next((text.split("\n", 1)[0][:200] for text in given.values() if isinstance(text, str) and text), "")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    parts = [content] if isinstance(content, dict) else content if isinstance(content, list) else []
    return joined(_part(part) for part in parts)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    given = as_dict(part)
    if given.get("thought"):
        return ""
    for key in ("inlineData", "fileData"):
        if isinstance(given.get(key), dict):
            kind = as_text(given[key].get("mimeType"))
            return named("image" if kind.startswith("image/") else "file", as_text(given[key].get("fileUri")) or kind)
    return as_text(given.get("text"))


GEMINI_CLI = Kind("gemini_cli", "Gemini CLI chat", _recognises, _read)


def _is_turn(value: Any) -> bool:
    turn = as_dict(value)
    return turn.get("role") in ("user", "model") and isinstance(turn.get("parts"), list)


def _recognises_checkpoint(sample: Sample) -> bool:
    turns = [record for record in sample.first if record.key in ("", "history")]
    return sample.form in ("array", "object") and bool(turns) and all(_is_turn(record.value) for record in turns)


def _read_checkpoint(sample: Sample) -> Iterator[Item]:
    messages: list[Message] = []
    raw = bytearray()
    left_out: Counter[str] = Counter()
    for number, record in enumerate(sample.records(("", "history"))):
        if isinstance(record, Problem):
            yield record
        elif record is not None and _is_turn(record.value):
            raw += record.raw + b"\n"
            turn = {"type": record.value["role"], "content": record.value["parts"]}
            said = list(_messages(f"message-{number}", turn, left_out))
            messages += [each for each in said if not each.text.startswith(_SET_UP)]
    stem = PurePosixPath(sample.source.name).stem
    first = messages[0].text if messages else ""
    yield Conversation(
        kind="gemini_checkpoint",
        id=f"{stem}-{hashlib.sha256(first.encode()).hexdigest()[:12]}",
        title=stem.removeprefix("checkpoint-"),
        messages=messages,
        raw=bytes(raw),
        created=iso_time(sample.source.modified_ms),
        updated=iso_time(sample.source.modified_ms),
    )


def _is_prompt(value: Any) -> bool:
    entry = as_dict(value)
    return {"sessionId", "messageId", "message", "timestamp"} <= entry.keys() and entry.get("type") == "user"


def _recognises_prompts(sample: Sample) -> bool:
    return sample.form == "array" and bool(sample.first) and all(_is_prompt(each.value) for each in sample.first)


def _read_prompts(sample: Sample) -> Iterator[Item]:
    """The log of prompts, a conversation a session; passed over where the chats lie beside it and hold the same."""
    path = sample.source.path
    if path is not None and (path.parent / "chats").is_dir():
        yield Problem("the file", "repeats your prompts of the chats beside it", loses=False)
        return
    sessions: dict[str, list[Message]] = {}
    raw: dict[str, list[bytes]] = {}
    for record in sample.records():
        if isinstance(record, Problem):
            yield record
        elif _is_prompt(record.value):
            value, session = record.value, as_text(record.value["sessionId"])
            text = as_text(value["message"]).strip()
            raw.setdefault(session, []).append(record.raw)
            if text and not text.startswith("/"):
                message = Message(
                    id=f"prompt-{value['messageId']}", speaker="user", text=text, time=iso_time(value["timestamp"])
                )
                sessions.setdefault(session, []).append(message)
    for session, messages in sessions.items():
        yield Conversation(kind="gemini_prompts", id=session, title="", messages=messages, raw=b"\n".join(raw[session]))


GEMINI_CHECKPOINT = Kind("gemini_checkpoint", "Gemini CLI checkpoint", _recognises_checkpoint, _read_checkpoint)
GEMINI_PROMPTS = Kind("gemini_prompts", "Gemini CLI log of prompts", _recognises_prompts, _read_prompts)
