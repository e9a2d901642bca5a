"""Exports of chat front ends that are one JSON file: Open WebUI, LibreChat, Chatbot UI, Grok, AI Studio."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from gaiad.archive.importing.kind import (
    active_branch,
    as_dict,
    as_list,
    as_text,
    dicts,
    joined,
    named,
    of_records,
    without_elements,
)
from gaiad.archive.importing.sample import ExportRecord, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

# Open WebUI's chat export: an array of chats, each with its tree in `chat.history`.

_FOLDED = re.compile(r"<(details)\b[^>]{0,200}\btype=\"(?:reasoning|tool_calls|code_interpreter)\"[^>]{0,200}>")


def _chat(record: ExportRecord) -> dict[str, Any]:
    """What holds the messages; exports of before it was Open WebUI have nothing around it."""
    value = as_dict(record.value)
    bare = isinstance(as_dict(value.get("history")).get("messages"), dict)
    return value if bare else as_dict(value.get("chat"))


def _matches(record: ExportRecord) -> bool:
    chat = _chat(record)
    return isinstance(as_dict(chat.get("history")).get("messages"), dict) or (
        isinstance(chat.get("messages"), list) and "models" in chat
    )


def _convert(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value, chat = record.value, _chat(record)
    history = as_dict(chat.get("history"))
    listed = {as_text(each.get("id")) or str(number): each for number, each in enumerate(dicts(chat.get("messages")))}
    messages = {
        name: each for name, each in as_dict(history.get("messages")).items() if isinstance(each, dict)
    } or listed
    parents = {name: as_text(each.get("parentId")) for name, each in messages.items()}
    times = {name: iso_time(each.get("timestamp")).rstrip("Z") for name, each in messages.items()}
    path = list(messages)
    if any(parents.values()):
        path = active_branch(parents, times, as_text(history.get("currentId"))).path
    others = [name for name in messages if name not in frozenset(path)]
    models = [each for each in chat.get("models") or [] if isinstance(each, str)]
    yield Conversation(
        kind="open_webui",
        id=as_text(value.get("id")) or as_text(chat.get("id")),
        title=as_text(value.get("title")) or as_text(chat.get("title")),
        messages=[message for name in path if (message := _message(name, messages[name])) is not None],
        raw=record.raw,
        created=iso_time(value.get("created_at")) or iso_time(chat.get("timestamp")),
        updated=iso_time(value.get("updated_at")),
        model=models[0] if models else "",
        tags=tuple(
            each for each in as_dict(value.get("meta")).get("tags") or chat.get("tags") or () if isinstance(each, str)
        ),
        alternatives=[message for name in others if (message := _message(name, messages[name])) is not None],
    )


def _message(name: str, given: dict[str, Any]) -> Message | None:
    role = as_text(given.get("role"))
    files = [
        named("image" if each.get("type") == "image" else "file", as_text(each.get("name")))
        for each in dicts(given.get("files"))
    ]
    said = as_text(given.get("content")) or _parts(given.get("content"))
    text = joined((without_elements(said, _FOLDED), "\n".join(files)))
    if role not in ("user", "assistant") or not text:
        return None
    model = as_text(given.get("model")) if role == "assistant" else ""
    time = iso_time(given.get("timestamp"))
    return Message(id=name, speaker=role, text=text, time=time, model=model, parent=as_text(given.get("parentId")))


OPEN_WEBUI = of_records("open_webui", "Open WebUI export", _matches, _convert)


# LibreChat's export of a conversation: messages flat with `parentMessageId`, or nested in `children`.


_THINKING = re.compile(r"^:::thinking\n.*?^:::\s*", re.DOTALL | re.MULTILINE)


def _matches_librechat(record: ExportRecord) -> bool:
    value = as_dict(record.value)
    messages = dicts(value.get("messages")) or dicts(value.get("messagesTree"))
    return (
        "conversationId" in value
        and bool(messages)
        and all("messageId" in each and ("isCreatedByUser" in each or "sender" in each) for each in messages[:8])
    )


def _convert_librechat(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value = record.value
    messages = _flat(as_list(value.get("messages")) or as_list(value.get("messagesTree")))
    parents = {name: as_text(each.get("parentMessageId")) for name, each in messages.items()}
    times = {name: iso_time(each.get("createdAt")).rstrip("Z") for name, each in messages.items()}
    path = list(messages)
    if any(parent in messages for parent in parents.values()):
        path = active_branch(parents, times, "").path
    others = [name for name in messages if name not in frozenset(path)]
    options = as_dict(value.get("options"))
    prefix = as_text(options.get("promptPrefix")).strip()
    said = [message for name in path if (message := _message_librechat(name, messages[name])) is not None]
    if prefix:
        said.insert(0, Message(id="instructions", speaker="user", text=prefix, part="instructions"))
    stamps = sorted(time for time in times.values() if time)
    yield Conversation(
        kind="librechat",
        id=as_text(value.get("conversationId")),
        title=as_text(value.get("title")),
        messages=said,
        raw=record.raw,
        created=f"{stamps[0]}Z" if stamps else "",
        updated=f"{stamps[-1]}Z" if stamps else "",
        model=as_text(options.get("model")),
        alternatives=[message for name in others if (message := _message_librechat(name, messages[name])) is not None],
    )


def _flat(given: list[Any]) -> dict[str, dict[str, Any]]:
    """Messages by id, parents before children, whether they lie flat or nested."""
    found: dict[str, dict[str, Any]] = {}
    waiting = list(reversed(dicts(given)))
    while waiting:
        each = waiting.pop()
        found.setdefault(as_text(each.get("messageId")) or f"message-{len(found)}", each)
        waiting += reversed(dicts(each.get("children")))
    return found


def _message_librechat(name: str, given: dict[str, Any]) -> Message | None:
    mine = bool(given.get("isCreatedByUser")) or as_text(given.get("sender")).lower() == "user"
    files = [named("file", as_text(each.get("filename"))) for each in dicts(given.get("files"))]
    said = _THINKING.sub("", as_text(given.get("text"))) or _parts(given.get("content"))
    text = joined((said, "\n".join(files)))
    if not text or given.get("error"):
        return None
    return Message(
        id=name,
        speaker="user" if mine else "assistant",
        text=text,
        time=iso_time(given.get("createdAt")),
        model="" if mine else as_text(given.get("model")),
        parent=as_text(given.get("parentMessageId")),
    )


def _parts(content: Any) -> str:
    texts = (part.get("text") for part in dicts(content) if part.get("type") == "text")
    return joined(as_text(text) or as_text(as_dict(text).get("value")) for text in texts)


LIBRECHAT = of_records("librechat", "LibreChat export", _matches_librechat, _convert_librechat)


# Chatbot UI's export: {"version", "history", "folders", "prompts"}; its messages have no times.


def _matches_chatbot_ui(record: ExportRecord) -> bool:
    value = as_dict(record.value)
    messages = dicts(value.get("messages"))
    said = isinstance(value.get("messages"), list) and all("role" in each for each in messages[:8])
    return record.key == "history" and "name" in value and said


def _convert_chatbot_ui(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value = record.value
    yield Conversation(
        kind="chatbot_ui",
        id=as_text(value.get("id")) or as_text(value.get("name")),
        title=as_text(value.get("name")),
        messages=[
            Message(id=f"message-{number}", speaker=as_text(each["role"]), text=text)
            for number, each in enumerate(dicts(value["messages"]))
            if each.get("role") in ("user", "assistant")
            and (text := as_text(each.get("content")).strip() or _parts(each.get("content")))
        ],
        raw=record.raw,
        model=as_text(as_dict(value.get("model")).get("id")),
    )


CHATBOT_UI = of_records("chatbot_ui", "Chatbot UI export", _matches_chatbot_ui, _convert_chatbot_ui)


# Grok's data export (prod-grok-backend.json): {"conversations": [{"conversation", "responses"}]}.

_RENDERED = re.compile(r"[ \t]?<(grok:render)\b[^>]{0,200}>")
_ARTIFACT_TAG = re.compile(r"</?xaiArtifact\b[^>]{0,500}>")


def _matches_grok(record: ExportRecord) -> bool:
    value = as_dict(record.value)
    return (
        record.key in ("", "conversations")
        and isinstance(value.get("conversation"), dict)
        and isinstance(value.get("responses"), list)
    )


def _convert_grok(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    about = _snake(record.value["conversation"])
    given = [_snake(as_dict(each.get("response")) or each) for each in dicts(record.value["responses"])]
    messages = {
        as_text(each.get("_id")) or as_text(each.get("response_id")) or f"message-{number}": each
        for number, each in enumerate(given)
    }
    parents = {name: as_text(each.get("parent_response_id")) for name, each in messages.items()}
    times = {name: _time(each.get("create_time")).rstrip("Z") for name, each in messages.items()}
    path = sorted(messages, key=times.__getitem__) if all(times.values()) else list(messages)
    if any(parent in messages for parent in parents.values()):
        path = active_branch(parents, times, as_text(about.get("leaf_response_id"))).path
    others = [name for name in messages if name not in frozenset(path)]
    said = [message for name in path if (message := _message_grok(name, messages[name])) is not None]
    models = [each.model for each in said if each.model]
    thoughts = sum(bool(each.get("thinking_trace")) for each in given)
    yield Conversation(
        kind="grok",
        id=as_text(about.get("id")) or as_text(about.get("conversation_id")),
        title=as_text(about.get("title")),
        messages=said,
        raw=record.raw,
        created=_time(about.get("create_time")),
        updated=_time(about.get("modify_time")),
        model=models[-1] if models else "",
        alternatives=[message for name in others if (message := _message_grok(name, messages[name])) is not None],
        left_out={"thoughts": thoughts} if thoughts else {},
    )


def _snake(given: dict[str, Any]) -> dict[str, Any]:
    """The fields with names such as `create_time`: what the page itself loads has `createTime`."""
    return {re.sub("(?<=[a-z])[A-Z]", lambda found: f"_{found[0].lower()}", name): each for name, each in given.items()}


def _message_grok(name: str, given: dict[str, Any]) -> Message | None:
    mine = as_text(given.get("sender")).lower() in ("human", "user")
    files = [
        named("file", each if isinstance(each, str) else as_text(as_dict(each).get("file_name")))
        for each in given.get("file_attachments") or []
    ]
    said = _ARTIFACT_TAG.sub("", without_elements(as_text(given.get("message")), _RENDERED))
    text = joined((said, "\n".join(files)))
    if not text:
        return None
    return Message(
        id=name,
        speaker="user" if mine else "assistant",
        text=text,
        time=_time(given.get("create_time")),
        model="" if mine else as_text(given.get("model")),
        parent=as_text(given.get("parent_response_id")),
    )


def _time(value: Any) -> str:
    """ISO 8601, or a database's own {"$date": {"$numberLong": "milliseconds"}}."""
    date = as_dict(value).get("$date", value)
    return iso_time(as_dict(date).get("$numberLong", date))


GROK = of_records("grok", "Grok export", _matches_grok, _convert_grok)


# Google AI Studio's prompts as they lie in Drive: an object with `chunkedPrompt.chunks`.

_FILES = {
    "driveDocument": "file",
    "driveImage": "image",
    "driveVideo": "video",
    "driveAudio": "audio",
    "inlineFile": "file",
    "inlineData": "file",
    "inlineImage": "image",
    "inlineAudio": "audio",
    "youtubeVideo": "video",
}


def _matches_ai_studio(record: ExportRecord) -> bool:
    chunks = as_dict(as_dict(record.value).get("chunkedPrompt")).get("chunks")
    return isinstance(chunks, list) and all("role" in each for each in dicts(chunks)[:8])


def _convert_ai_studio(record: ExportRecord, sample: Sample) -> Iterator[Conversation]:
    value = record.value
    chunks = dicts(value["chunkedPrompt"]["chunks"])
    left_out: Counter[str] = Counter()
    ids = [as_text(each.get("id")) or f"chunk-{number}" for number, each in enumerate(chunks)]
    replaced = frozenset(name for name, each in zip(ids, chunks, strict=True) if as_list(each.get("branchChildren")))
    model = as_text(as_dict(value.get("runSettings")).get("model")).removeprefix("models/")
    said = [_message_ai_studio(name, each, model, left_out) for name, each in zip(ids, chunks, strict=True)]
    told = [each for each in said if each is not None]
    system = as_dict(value.get("systemInstruction"))
    instructions = as_text(system.get("text")) or joined(
        as_text(part.get("text")) for part in dicts(system.get("parts"))
    )
    start = [Message(id="instructions", speaker="user", text=instructions, part="instructions")] if instructions else []
    name = PurePosixPath(sample.source.name).name.removesuffix(".json")
    first = told[0].text if told else ""
    yield Conversation(
        kind="ai_studio",
        id=as_text(value.get("id")) or f"{name}-{hashlib.sha256(first.encode()).hexdigest()[:12]}",
        title=as_text(value.get("displayName")) or as_text(value.get("title")) or name,
        messages=[*start, *(each for each in told if each.id not in replaced)],
        raw=record.raw,
        created=iso_time(value.get("createTime")) or iso_time(sample.source.modified_ms),
        updated=iso_time(value.get("updateTime")) or iso_time(sample.source.modified_ms),
        model=model,
        alternatives=[each for each in told if each.id in replaced],
        left_out=dict(left_out),
    )


def _message_ai_studio(name: str, chunk: dict[str, Any], model: str, left_out: Counter[str]) -> Message | None:
    if chunk.get("isThought"):
        left_out["thoughts"] += 1
        return None
    mine = chunk.get("role") == "user"
    files = [named(_FILES[key], _file_name(as_dict(chunk[key]))) for key in _FILES if isinstance(chunk.get(key), dict)]
    code = as_text(as_dict(chunk.get("executableCode")).get("code"))
    parts = [each for each in dicts(chunk.get("parts")) if not each.get("thought")]
    words = as_text(chunk.get("text")) or "".join(as_text(each.get("text")) for each in parts)
    text = joined((words, f"```\n{code}\n```" if code else "", "\n".join(files)))
    if not text:
        return None
    time = iso_time(chunk.get("createTime"))
    if code and not words.strip():
        return Message(id=name, speaker="tool", text=text, time=time, part="artifact")
    return Message(id=name, speaker="user" if mine else "assistant", text=text, time=time, model="" if mine else model)


def _file_name(given: dict[str, Any]) -> str:
    return next((text for key in ("name", "fileName", "id", "mimeType") if (text := as_text(given.get(key)))), "")


AI_STUDIO = of_records("ai_studio", "AI Studio prompt", _matches_ai_studio, _convert_ai_studio)
