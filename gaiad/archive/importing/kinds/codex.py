"""Codex's rollouts: rollout-*.jsonl, new (records with a payload) and old (bare items), and the oldest single JSON.

What was said is in up to three streams of one file (events, response items, completed items), none of them whole;
a message is taken from whichever tells it first, as often as the stream that tells it most often. Of the items in the
person's name, one that is a single element in angle brackets is the person's only when an event tells it too: the
program writes context in that name.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gaiad.archive.importing.json_stream import Unreadable, json_value
from gaiad.archive.importing.kind import (
    Item,
    Kind,
    SourceLines,
    as_dict,
    as_list,
    as_text,
    check_words,
    dicts,
    joined,
    named,
)
from gaiad.archive.importing.sample import ExportRecord, Problem, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"))
_ITEMS = frozenset(("message", "reasoning", "function_call", "function_call_output", "local_shell_call"))
_PREAMBLE = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions instructions|collaboration_mode|turn_aborted|skill|"
    r"subagent_notification|INSTRUCTIONS|user_shell_command|model_switch|user_action)\b|# AGENTS\.md instructions|"
    r"Another language model started to solve this problem and produced a summary|"
    r"You were originally given instructions from a user over one or more turns)"
)
_ELEMENT = re.compile(r"\s*<([A-Za-z][\w-]*)\b[^>]*>.*</\1>\s*", re.DOTALL)
_IMAGE_TAG = re.compile(r"\s*</?image\b[^>]*>\s*")
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*\n?", re.MULTILINE)
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CALL_KEYS = ("command", "cmd", "query", "path", "input")


def _recognises(sample: Sample) -> bool:
    if sample.form == "object":
        whole = as_dict(sample.whole.value if sample.whole else None)
        return isinstance(whole.get("session"), dict) and any(_is_bare(each) for each in dicts(whole.get("items")))
    return any(_is_enveloped(record.value) or _is_bare(record.value) for record in sample.first)


def _is_enveloped(value: Any) -> bool:
    return as_dict(value).get("type") in _ENVELOPES and isinstance(as_dict(value).get("payload"), dict)


def _is_bare(value: Any) -> bool:
    line = as_dict(value)
    return (
        line.get("type") in _ITEMS
        and ("role" in line or "call_id" in line or "summary" in line)
        and "message" not in line
    )


def _read(sample: Sample) -> Iterator[Item]:
    session = _Rollout(sample)
    raw = SourceLines()
    for record in _records(sample):
        if isinstance(record, Problem):
            yield record
            continue
        raw.add(record.raw)
        session.take(as_dict(record.value))
    if session.is_subagent:
        yield Problem("the file", "is a subagent's session without your words", loses=False)
        return
    yield session.conversation(raw.record(session.left_out))


def _records(sample: Sample) -> Iterable[ExportRecord | Problem]:
    if sample.form != "object" or sample.whole is None:
        return sample.records()
    whole = sample.whole
    items = [{"type": "session_meta", "payload": whole.value["session"]}, *dicts(whole.value["items"])]
    return [ExportRecord("the file", "", whole.raw if number == 0 else b"", item) for number, item in enumerate(items)]


class _Rollout:
    """What a rollout says, gathered line by line."""

    def __init__(self, sample: Sample) -> None:
        self.meta: dict[str, Any] = {}
        self.title = self.model = ""
        self.messages: list[Message] = []
        self.left_out: Counter[str] = Counter()
        self._name = sample.source.name.rpartition("/")[2]
        self._told: dict[str, Counter[tuple[str, str]]] = {}
        self._taken: Counter[tuple[str, str]] = Counter()
        self._keys: dict[str, tuple[str, str]] = {}
        self._words = 0

    @property
    def is_subagent(self) -> bool:
        source = self.meta.get("source")
        return isinstance(source, dict) and "subagent" in source

    def take(self, line: dict[str, Any]) -> None:
        """One line; what is of no known kind is passed over."""
        kind, payload, time = line.get("type"), as_dict(line.get("payload")), iso_time(line.get("timestamp"))
        if kind == "session_meta" or (not self.meta and "id" in line and "timestamp" in line and "role" not in line):
            self.meta = self.meta or payload or line
        elif kind == "turn_context":
            self.model = as_text(payload.get("model")) or self.model
        elif kind == "event_msg":
            self._event(payload, time)
        elif kind == "response_item":
            self._item(payload, time)
        elif kind in _ITEMS:
            self._item(line, time)

    def _event(self, payload: dict[str, Any], time: str) -> None:
        kind = payload.get("type")
        if kind == "user_message":
            local = [str(each).rpartition("/")[2] for each in as_list(payload.get("local_images"))]
            images = [named("image", each) for each in local or [""] * len(as_list(payload.get("images")))]
            self._say("event", "user", as_text(payload.get("message")), time, images)
        elif kind == "agent_message":
            self._say("event", "assistant", as_text(payload.get("message")), time)
        elif kind == "thread_name_updated":
            self.title = as_text(payload.get("thread_name")) or self.title
        elif kind == "item_completed":
            item = as_dict(payload.get("item"))
            role = {"UserMessage": "user", "AgentMessage": "assistant"}.get(as_text(item.get("type")))
            if role:
                self._say("completed", role, _content(item), time, _images(item))

    def _item(self, item: dict[str, Any], time: str) -> None:
        kind, role = item.get("type"), as_text(item.get("role"))
        if kind in ("message", None) and role in ("user", "assistant"):
            self._say("item", role, _content(item), time, _images(item))
        elif kind == "message":
            self.left_out["instructions of the program"] += 1
        elif kind == "reasoning":
            self.left_out["thoughts"] += 1
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_call"):
            self._call(item, time)

    def _say(self, stream: str, role: str, text: str, time: str, images: Sequence[str] = ()) -> None:
        if role == "user":
            if _PREAMBLE.match(text):
                self.left_out["instructions of the program"] += 1
                return
            if request := _REQUEST.search(text):
                text = text[request.end() :]
        key = (role, " ".join(text.split()))
        told = self._told.setdefault(stream, Counter())
        told[key] += 1
        if not (key[1] or images) or told[key] <= self._taken[key]:
            return
        self._taken[key] += 1
        self._words += len(text)
        check_words(self._words)
        number = len(self.messages)
        model = self.model if role == "assistant" else ""
        shown = joined((text, "\n".join(images)))
        self._keys[f"message-{number}"] = key
        self.messages.append(Message(id=f"message-{number}", speaker=role, text=shown, time=time, model=model))

    def _call(self, item: dict[str, Any], time: str) -> None:
        told = f"{as_text(item.get('name')) or as_text(item.get('type'))}: {_call_text(item)}".rstrip(": ")
        if self.messages and self.messages[-1].speaker == "tool":
            last = self.messages.pop()
            told, time = f"{last.text}\n{told}", last.time
        self.messages.append(
            Message(id=f"tools-{len(self.messages)}", speaker="tool", text=told, time=time, part="artifact")
        )

    def _spoken(self) -> list[Message]:
        """The messages, without what only the program says in the person's name: items that are one element."""
        heard = self._told.get("event", Counter()) | self._told.get("completed", Counter())
        if not any(role == "user" for role, _ in heard):
            return self.messages
        spoken = [
            each for each in self.messages if self._keys.get(each.id) in heard or not _ELEMENT.fullmatch(each.text)
        ]
        if len(spoken) < len(self.messages):
            self.left_out["instructions of the program"] += len(self.messages) - len(spoken)
        return spoken

    def conversation(self, raw: bytes) -> Conversation:
        named_id = _ID.search(self._name)
        project = as_text(self.meta.get("cwd")).rstrip("/").rpartition("/")[2]
        stem = self._name.removesuffix(".jsonl").removesuffix(".json")
        told_id = as_text(self.meta.get("id")) or as_text(self.meta.get("session_id"))
        return Conversation(
            kind="codex",
            id=told_id or (named_id[0] if named_id else stem),
            title=self.title,
            messages=self._spoken(),
            raw=raw,
            created=iso_time(self.meta.get("timestamp")),
            model=self.model or as_text(self.meta.get("model")),
            labels={"project": (project,)} if project else {},
            left_out=dict(self.left_out),
        )


def _content(item: dict[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    texts = (as_text(block.get("text")) or as_text(block.get("output_text")) for block in dicts(content))
    return joined(text for text in texts if not _IMAGE_TAG.fullmatch(text))


def _images(item: dict[str, Any]) -> list[str]:
    """Images of a message, without names: it holds their bytes alone."""
    kinds = ("input_image", "image", "local_image")
    return [named("image", "") for block in dicts(item.get("content")) if block.get("type") in kinds and _shown(block)]


def _shown(block: dict[str, Any]) -> bool:
    return bool(block.get("image_url") or block.get("path"))


def _call_text(item: dict[str, Any]) -> str:
    """What a tool was called with, on one line."""
    given: Any = item.get("arguments") or item.get("input") or item.get("action")
    if isinstance(given, str) and given.startswith("{"):
        try:
            given = json_value(given.encode())
        except Unreadable:
            return str(given).splitlines()[0][:200]
    if isinstance(given, dict):
        given = next((given[key] for key in _CALL_KEYS if given.get(key)), "")
    if isinstance(given, list):
        given = " ".join(str(each) for each in given)
    return str(given).strip().split("\n", 1)[0][:200] if given else ""


CODEX = Kind("codex", "Codex session", _recognises, _read)
