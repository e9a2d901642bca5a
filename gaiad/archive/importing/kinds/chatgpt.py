"""ChatGPT's data export: conversations.json, or conversations-000.json and so on, records with a tree in `mapping`."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from gaiad.archive.importing.json_stream import Unreadable, json_value
from gaiad.archive.importing.kind import active_branch, as_dict, as_list, as_text, dicts, joined, named, of_records
from gaiad.archive.importing.large_record import LargeObject
from gaiad.archive.importing.sample import ExportRecord, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_PRIVATE_MARK = re.compile("\ue200([^\ue200\ue201]*)\ue201")
_LEFT_MARKS = re.compile("[\ue200-\ue20f]")
_OLD_CITATION = re.compile(r"【\d+(?::\d+)?†[^】\n]{0,200}】")
_THOUGHTS = frozenset(("thoughts", "reasoning_recap"))
_CONTEXT = frozenset(("user_editable_context", "model_editable_context"))
_CODE_RUNNERS = frozenset(("python", "container.exec", "code_interpreter"))
_HIDDEN = "is_visually_hidden_from_conversation"


def _matches(record: ExportRecord) -> bool:
    value = record.value
    if record.key not in ("", "conversations") or not isinstance(value, dict):
        return False
    mapping = value.get("mapping")
    if mapping is None and "mapping" in value and ("conversation_id" in value or "id" in value):
        return True  # a conversation in which nothing was said
    if isinstance(mapping, LargeObject):
        return True
    if not isinstance(mapping, dict) or not ("title" in value or "create_time" in value or "current_node" in value):
        return False
    return all(
        isinstance(node, dict) and ("message" in node or "parent" in node) for node in islice(mapping.values(), 8)
    )


def _convert(record: ExportRecord, _sample: Sample) -> Iterator[Conversation]:
    value = record.value
    mapping = value.get("mapping")
    nodes = mapping if isinstance(mapping, LargeObject) else as_dict(mapping)
    parents = _parents(nodes)
    current = as_text(value.get("current_node"))
    untold = () if current in nodes else nodes.items()  # without it the newest leaf counts
    times = {name: iso_time(_message(node).get("create_time")).rstrip("Z") for name, node in untold}
    branch = active_branch(parents, times, current)
    on_branch = frozenset(branch.path)
    left_out: Counter[str] = Counter()
    model = as_text(value.get("default_model_slug"))
    messages = [each for name in branch.path if (each := _read(name, nodes[name], left_out)) is not None]
    alternatives = [
        each for name in parents if name not in on_branch and (each := _read(name, nodes[name], Counter())) is not None
    ]
    if branch.cycle:
        left_out["messages above a cycle in its tree"] += 1
    instructions = _instructions(nodes)
    if instructions:
        messages.insert(0, Message(id="instructions", speaker="user", text=instructions, part="instructions"))
    spoken = [each.model for each in messages if each.model]
    gizmo = as_text(value.get("gizmo_id"))
    yield Conversation(
        kind="chatgpt",
        id=as_text(value.get("conversation_id")) or as_text(value.get("id")) or _made_id(value, branch.path),
        title=as_text(value.get("title")),
        messages=messages,
        raw=record.raw,
        created=iso_time(value.get("create_time")),
        updated=iso_time(value.get("update_time")),
        model=spoken[-1] if spoken else model,
        labels={"gpt": (gizmo,)} if gizmo else {},
        alternatives=alternatives,
        left_out=dict(left_out),
    )


def _message(node: Any) -> dict[str, Any]:
    return as_dict(as_dict(node).get("message"))


def _parents(nodes: Mapping[str, Any]) -> dict[str, str]:
    """Each node's parent; told by the `children` where nodes name none, or the one before where nothing is told."""
    told = {name: as_text(node.get("parent")) for name, node in nodes.items() if isinstance(node, dict)}
    if not any(told.values()):
        told |= {child: name for name in told for child in as_list(nodes[name].get("children")) if child in told}
    if not any(told.values()):
        names = list(told)
        told = dict(zip(names, ["", *names], strict=False))
    return told


def _read(name: str, node: dict[str, Any], left_out: Counter[str]) -> Message | None:
    """A node as a person sees it, None when it is not shown; `left_out` counts why."""
    message = _message(node)
    if not message:
        return None
    plain, metadata = message.get("content"), as_dict(message.get("metadata"))
    content = {"content_type": "text", "parts": [plain]} if isinstance(plain, str) else as_dict(plain)
    author = as_dict(message.get("author"))
    role, kind = as_text(author.get("role")), as_text(content.get("content_type"))
    if role == "tool" and metadata.get("is_async_task_result_message"):
        role = "assistant"  # the report of a deep research
    recipient = as_text(message.get("recipient")) or "all"
    text = _text(content, metadata)
    reason, speaker, part = "", role, "transcript"
    if kind in _CONTEXT or metadata.get(_HIDDEN) or role == "system":
        reason = "hidden or system messages" if text else ""
        role = ""
    elif kind == "system_error":
        reason, role = "errors of the service", ""
    elif kind in _THOUGHTS or as_text(message.get("channel")) == "analysis":
        reason, role = "thoughts", ""
    elif role == "assistant" and (written := _canvas(text) if recipient.startswith("canmore.") else ""):
        text, speaker, part = written, "tool", "artifact"
    elif recipient in _CODE_RUNNERS and role == "assistant":
        text, speaker, part = _fenced(text, "python"), "tool", "artifact"
    elif recipient != "all":
        reason, role = "tool calls", ""
    elif role == "tool":
        shown = kind == "execution_output" or (kind == "multimodal_text" and "[image: " in text)
        reason, role = ("", role) if shown else ("tool results", "")
        text, speaker, part = (_fenced(text, "") if kind == "execution_output" else text), "tool", "artifact"
    elif kind == "code":
        language = as_text(content.get("language"))
        text = _fenced(text, "" if language == "unknown" else language)
    if reason:
        left_out[reason] += 1
    if role not in ("user", "assistant", "tool") or not text:
        return None
    return Message(
        id=as_text(message.get("id")) or name,
        speaker=speaker,
        text=text,
        time=iso_time(message.get("create_time")),
        model=as_text(metadata.get("model_slug")) if role == "assistant" else "",
        part="artifact" if part == "artifact" else "transcript",
        parent=as_text(node.get("parent")),
    )


def _text(content: dict[str, Any], metadata: dict[str, Any]) -> str:
    parts = [_part(each) for each in as_list(content.get("parts"))]
    plain = as_text(content.get("text")) or as_text(content.get("result"))
    files = [
        named("image" if _media_type(each).startswith("image/") else "file", as_text(each.get("name")))
        for each in dicts(metadata.get("attachments"))
        if as_text(each.get("name"))
    ]
    pictures = [part for part in parts if part.startswith("[image: ")]
    if sum(each.startswith("[image: ") for each in files) >= len(pictures):
        parts = [part for part in parts if part not in pictures]  # the attachment tells its name, the part only an id
    return joined((*(_plain(part) for part in parts), _plain(plain), "\n".join(files)))


def _media_type(attachment: dict[str, Any]) -> str:
    return as_text(attachment.get("mime_type")) or as_text(attachment.get("mimeType"))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = as_text(as_dict(part).get("content_type"))
    if kind == "audio_transcription":
        return as_text(part.get("text"))
    name = as_text(as_dict(part).get("asset_pointer")).rpartition("/")[2]
    if "image" in kind:
        return named("image", name)
    if "audio" in kind or "video" in kind:
        pointer = as_dict(part.get("audio_asset_pointer")) or part
        return named("audio", as_text(pointer.get("asset_pointer")).rpartition("/")[2])
    return as_text(as_dict(part).get("text"))


def _plain(text: str) -> str:
    """The words without the marks of citations; what an entity is called stays."""
    if _LEFT_MARKS.search(text):
        text = _LEFT_MARKS.sub("", _PRIVATE_MARK.sub(_shown_mark, text))
    return _OLD_CITATION.sub("", text) if "【" in text else text


def _shown_mark(found: re.Match[str]) -> str:
    name, _, rest = found[1].partition("\ue202")
    if name == "url":
        title, _, link = rest.partition("\ue202")
        return f"[{title}]({link})" if link else title
    if name == "entity":
        try:
            values = msgspec.json.decode(rest.encode(), type=list[str])
        except msgspec.MsgspecError:
            return ""
        return values[1] if len(values) > 1 else ""
    return ""


def _canvas(text: str) -> str:
    """The document that a call to the canvas writes, with its name; "" for a comment on one."""
    try:
        call = as_dict(json_value(text.encode()))
    except Unreadable:
        return ""
    pieces = (as_text(each.get("replacement")) for each in dicts(call.get("updates")))
    written = as_text(call.get("content")) or joined(pieces)
    kind, _, language = as_text(call.get("type")).partition("/")
    return joined((as_text(call.get("name")), _fenced(written, language) if kind == "code" else written))


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```" if text.strip() else ""


def _instructions(nodes: Mapping[str, Any]) -> str:
    """The person's own instructions to every conversation, once though they may be repeated in the tree."""
    for node in nodes.values():
        content = as_dict(_message(node).get("content"))
        if content.get("content_type") == "user_editable_context":
            return joined((as_text(content.get("user_profile")), as_text(content.get("user_instructions"))))
        told = as_dict(as_dict(_message(node).get("metadata")).get("user_context_message_data"))
        if told:  # as exports of 2023 have it
            return joined((as_text(told.get("about_user_message")), as_text(told.get("about_model_message"))))
    return ""


def _made_id(value: dict[str, Any], path: list[str]) -> str:
    """An id for a record without one: made of when it began and its first message."""
    told = f"{value.get('create_time')}\0{path[0] if path else value.get('title')}"
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:24]


CHATGPT = of_records("chatgpt", "ChatGPT export", _matches, _convert)
