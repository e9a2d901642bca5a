"""Claude.ai's data export: conversations.json (an array, one object, or {"conversations"}), projects, memories."""

import re
from collections.abc import Iterator
from typing import Any

from gaiad.archive.importing.kind import (
    Kind,
    active_branch,
    as_dict,
    as_text,
    dicts,
    joined,
    named,
    of_records,
    without_elements,
)
from gaiad.archive.importing.large_record import LargeArray
from gaiad.archive.importing.sample import ExportRecord, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant"}
_THINKING = re.compile("<antThinking>")
_ARTIFACT = re.compile(r"<antArtifact\b([^>]{0,500})>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_PLACEHOLDER = re.compile(
    r"```\s*\n[^\n`]*(?:isn.t yet supported|not supported on your current device)[^\n`]*\n```", re.IGNORECASE
)


def _matches(record: ExportRecord) -> bool:
    value = record.value
    return (
        record.key in ("", "conversations")
        and isinstance(value, dict)
        and isinstance(value.get("chat_messages"), list | LargeArray)
        and ("uuid" in value or "name" in value)
    )


def _convert(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value = record.value
    given = value["chat_messages"]
    said: dict[str, list[Message]] = {}
    links: dict[str, tuple[str, str]] = {}
    thoughts = 0
    for number, each in enumerate(each for each in given if isinstance(each, dict)):
        name = as_text(each.get("uuid")) or f"message-{number}"
        name = name if name not in links else f"{name}-{number}"
        links[name] = (as_text(each.get("parent_message_uuid")), iso_time(each.get("created_at")).rstrip("Z"))
        said[name] = list(_messages(name, each))
        thoughts += sum(block.get("type") == "thinking" for block in dicts(each.get("content")))
    order, others, cycle = _order(links, as_text(value.get("current_leaf_message_uuid")))
    left_out: dict[str, int] = {"messages above a cycle in its tree": 1} if cycle else {}
    if thoughts:
        left_out["thoughts"] = thoughts
    project = as_text(as_dict(value.get("project")).get("name")) or as_text(value.get("project_uuid"))
    yield Conversation(
        kind="claude_ai",
        id=as_text(value.get("uuid")) or as_text(value.get("name")),
        title=as_text(value.get("name")),
        messages=[message for each in order for message in said[each]],
        raw=record.raw,
        created=iso_time(value.get("created_at")),
        updated=iso_time(value.get("updated_at")),
        model=as_text(value.get("model")),
        labels={"project": (project,)} if project else {},
        alternatives=[message for each in others for message in said[each]],
        left_out=left_out,
    )


def _order(messages: dict[str, tuple[str, str]], leaf: str) -> tuple[list[str], list[str], bool]:
    """Ids of the branch shown, ids of the others, and whether the tree had a cycle; without a tree, all by time.

    `messages` gives each one's (parent, time).
    """
    parents = {name: parent for name, (parent, _) in messages.items()}
    times = {name: time for name, (_, time) in messages.items()}
    if any(parent in messages for parent in parents.values()):
        branch = active_branch(parents, times, leaf)
        on_branch = frozenset(branch.path)
        return branch.path, [name for name in messages if name not in on_branch], branch.cycle
    return (sorted(messages, key=times.__getitem__) if all(times.values()) else list(messages)), [], False


def _messages(name: str, given: dict[str, Any]) -> Iterator[Message]:
    speaker, time = _SPEAKERS.get(as_text(given.get("sender"))), iso_time(given.get("created_at"))
    if speaker is None:
        return
    files = [
        named("image" if each.get("file_kind") == "image" else "file", as_text(each.get("file_name")))
        for each in (*dicts(given.get("attachments")), *dicts(given.get("files")), *dicts(given.get("files_v2")))
    ]
    text = joined((_said(given), "\n".join(dict.fromkeys(files))))
    parent = as_text(given.get("parent_message_uuid"))
    if text:
        model = as_text(given.get("model")) if speaker == "assistant" else ""
        yield Message(id=name, speaker=speaker, text=text, time=time, model=model, parent=parent)
    for number, each in enumerate(dicts(given.get("attachments"))):
        content = as_text(each.get("extracted_content")).strip()
        if content:
            title = named("file", as_text(each.get("file_name")))
            yield Message(
                id=f"{name}/attachment-{number}",
                speaker=speaker,
                text=f"{title}\n\n{content}",
                time=time,
                part="artifact",
                parent=parent,
            )


def _said(given: dict[str, Any]) -> str:
    """The words of the blocks, with artifacts and code as fenced text; the flat text where the blocks have none."""
    blocks = dicts(given.get("content"))
    texts = [as_text(block.get("text")) for block in blocks if block.get("type") in ("text", "voice_note")]
    flat = _PLACEHOLDER.sub("", as_text(given.get("text")))
    if not any(text.strip() for text in texts) and flat.strip():
        texts = [flat]
    made = [_made(block) for block in blocks if block.get("type") == "tool_use"]
    return joined(_shown(text) for text in (*texts, *made))


def _shown(text: str) -> str:
    said = without_elements(text, _THINKING, "</antThinking>")
    return without_elements(said, _ARTIFACT, "</antArtifact>", _fenced_artifact)


def _made(block: dict[str, Any]) -> str:
    """An artifact or a piece of code that the assistant wrote, as fenced text; "" for every other tool."""
    given = as_dict(block.get("input"))
    if block.get("name") == "repl":
        return _fence(as_text(given.get("code")), "javascript", "")
    if block.get("name") not in ("artifacts", "create_file"):
        return ""
    return _fence(
        next((text for key in ("content", "new_str", "file_text") if (text := as_text(given.get(key)))), ""),
        as_text(given.get("language")),
        as_text(given.get("title")) or as_text(given.get("path")),
    )


def _fenced_artifact(opened: re.Match[str], inner: str) -> str:
    attributes = dict(_ATTRIBUTE.findall(opened[1]))
    return _fence(inner, attributes.get("language", ""), attributes.get("title", ""))


def _fence(text: str, language: str, title: str) -> str:
    if not text.strip():
        return ""
    return joined((title, f"```{language}\n{text.strip(chr(10))}\n```"))


# --------------------------------------------------------------------------------------------- projects and memories


def _is_project(record: ExportRecord) -> bool:
    value = record.value
    return isinstance(value, dict) and "uuid" in value and isinstance(value.get("docs"), list) and "name" in value


def _project(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value = record.value
    created = iso_time(value.get("created_at"))
    texts = [
        ("description", as_text(value.get("description")), created),
        ("instructions", as_text(value.get("prompt_template")), created),
        *(
            (
                as_text(each.get("filename")) or f"document {number}",
                as_text(each.get("content")),
                iso_time(each.get("created_at")),
            )
            for number, each in enumerate(dicts(value.get("docs")), start=1)
        ),
    ]
    yield Conversation(
        kind="claude_project",
        id=as_text(value.get("uuid")),
        title=as_text(value.get("name")),
        messages=[
            Message(id=name, speaker="", text=text, time=time, part="content")
            for name, text, time in texts
            if text.strip()
        ],
        raw=record.raw,
        created=created,
        updated=iso_time(value.get("updated_at")),
    )


def _is_memory(record: ExportRecord) -> bool:
    value = record.value
    keys = ("conversations_memory", "project_memories", "memory_files")
    return isinstance(value, dict) and any(key in value for key in keys)


def _memory(record: ExportRecord, sample: Sample) -> Iterator[Conversation]:
    value = record.value
    projects = as_dict(value.get("project_memories"))
    texts = [
        ("conversations", as_text(value.get("conversations_memory"))),
        *((name, as_text(text)) for name, text in projects.items()),
        *((as_text(each.get("path")), as_text(each.get("content"))) for each in dicts(value.get("memory_files"))),
    ]
    yield Conversation(
        kind="claude_memory",
        id=as_text(value.get("account_uuid")) or "account",
        title="What Claude remembers",
        messages=[Message(id=name, speaker="", text=text, part="content") for name, text in texts if text.strip()],
        raw=record.raw,
        updated=iso_time(sample.source.modified_ms),
    )


# ------------------------------------------------------------------------------------------------------ design chats


def _is_design(record: ExportRecord) -> bool:
    value = as_dict(record.value)
    messages = dicts(value.get("messages"))
    return "uuid" in value and bool(messages) and all(isinstance(each.get("content"), dict) for each in messages[:8])


def _design(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value = record.value
    given = dicts(value["messages"])
    project = as_text(as_dict(value.get("project")).get("name"))
    yield Conversation(
        kind="claude_design",
        id=as_text(value.get("uuid")),
        title=as_text(value.get("title")),
        messages=[each for number, one in enumerate(given) if (each := _design_message(number, one)) is not None],
        raw=record.raw,
        created=iso_time(value.get("created_at")),
        updated=iso_time(value.get("updated_at")),
        labels={"project": (project,)} if project else {},
    )


def _design_message(number: int, given: dict[str, Any]) -> Message | None:
    content = as_dict(given.get("content"))
    speaker = _SPEAKERS.get(as_text(content.get("role")) or as_text(given.get("role")))
    blocks = (as_text(each.get("text")) for each in dicts(content.get("contentBlocks")) if each.get("type") == "text")
    files = [
        named(as_text(each.get("type")), as_text(each.get("name")))
        for each in dicts(content.get("attachments"))
        if each.get("type") in ("file", "image")
    ]
    text = joined((as_text(content.get("content")) or joined(blocks), "\n".join(files)))
    if speaker is None or not text:
        return None
    time = iso_time(content.get("timestamp")) or iso_time(given.get("created_at"))
    return Message(id=as_text(given.get("uuid")) or f"message-{number}", speaker=speaker, text=text, time=time)


CLAUDE_DESIGN: Kind = of_records("claude_design", "Claude design chat", _is_design, _design)
CLAUDE_AI: Kind = of_records("claude_ai", "Claude.ai export", _matches, _convert)
CLAUDE_PROJECT: Kind = of_records("claude_project", "Claude.ai project list", _is_project, _project)
CLAUDE_MEMORY: Kind = of_records("claude_memory", "Claude.ai memory file", _is_memory, _memory)
