"""What front ends ask for themselves: a title, tags or questions to follow, as JSON with one key. Pure.

A small model hands the examples of such a prompt back as its answer; what it says is used only where it fits the asked
form and is not in the prompt. Otherwise the title is the beginning of what the person said first, and lists are empty.
"""

import re
import textwrap
from typing import Any, NamedTuple

import msgspec

_HISTORY = re.compile(r"<chat_history>(.*?)</chat_history>", re.DOTALL)
_FORM = re.compile(r'\{\s*"(\w{1,40})"\s*:\s*(\[?)')
_SAID = re.compile(r"^\s*(?:USER|Human)\s*:\s*(.*?)(?=^\s*(?:ASSISTANT|AI)\s*:|\Z)", re.DOTALL | re.MULTILINE | re.I)
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_TITLE_CHARS = 50


class SideTask(NamedTuple):
    """`key` is the one of the JSON object that is asked for, "" for plain text; `said` the person's first words."""

    prompt: str
    key: str
    is_list: bool
    said: str


def read_side_task(prompt: str) -> SideTask:
    """What such a prompt asks for, and what the conversation in it begins with."""
    history = _HISTORY.search(prompt)
    told = prompt[: history.start()] + prompt[history.end() :] if history else prompt
    form = _FORM.search(told)
    first = _SAID.search(history[1]) if history else None
    said = first[1] if first else history[1] if history else ""
    return SideTask(told, form[1] if form else "", bool(form and form[2]), said)


def answer(task: SideTask, reply: str) -> str:
    """The reply where it can be used, else an answer made by rule. `reply` "" is none."""
    values = _values(task, reply)
    if values and not all(_repeats(task, value) for value in values):
        return reply
    return by_rule(task)


def by_rule(task: SideTask) -> str:
    """An answer without a model: a title from the person's first words; nothing for lists and other texts."""
    line = next(filter(None, map(str.strip, task.said.splitlines())), "")
    short = textwrap.shorten(line, _TITLE_CHARS, placeholder="…")
    title = line[:_TITLE_CHARS] if short == "…" else short
    if not task.key:
        return title
    value: Any = [] if task.is_list else title if task.key == "title" else ""
    return msgspec.json.encode({task.key: value}).decode()


def _values(task: SideTask, reply: str) -> list[str]:
    """The texts of a reply in the asked form, none for one in another."""
    if not task.key:
        return [reply] if reply.strip() and len(reply) <= 2 * _TITLE_CHARS else []
    found = _OBJECT.search(reply)
    try:
        value = msgspec.json.decode(found[0] if found else "", type=dict[str, Any]).get(task.key)
    except msgspec.DecodeError:
        return []
    values = value if isinstance(value, list) and task.is_list else [None if task.is_list else value]
    texts = [one for one in values if isinstance(one, str) and one.strip()]
    return texts if len(texts) == len(values) else []


def _repeats(task: SideTask, value: str) -> bool:
    """Whether the text is out of the prompt, not of the conversation in it."""
    words = " ".join(re.findall(r"\w+", value.casefold()))
    prompt = " ".join(re.findall(r"\w+", task.prompt.casefold()))
    return not words or f" {words} " in f" {prompt} "
