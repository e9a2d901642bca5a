"""Other shapes of a conversation, for chat templates that know no system message or want user and assistant by turns.

Nothing is dropped and nothing reordered: messages are joined, with an empty line between them. Pure.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from gaiad.generation import ChatMessage, Segment

_BETWEEN = Segment("\n\n")


def as_it_is(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    return list(messages)


def without_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Each system message goes to the front of the next user message, or becomes one where none follows."""
    shaped: list[ChatMessage] = []
    held: list[ChatMessage] = []
    for message in messages:
        if message.role == "system":
            held.append(message)
            continue
        if message.role == "assistant" and held:
            shaped.append(_join("user", held))
            held = []
        shaped.append(_join(message.role, [*held, message]))
        held = []
    return [*shaped, _join("user", held)] if held else shaped


def joined(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Neighbours of one role become one message."""
    runs: list[list[ChatMessage]] = []
    for message in messages:
        if runs and runs[-1][0].role == message.role:
            runs[-1].append(message)
        else:
            runs.append([message])
    return [_join(run[0].role, run) for run in runs]


def by_turns(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """User and assistant alone, one after the other."""
    return joined(without_system(messages))


WAYS: tuple[tuple[str, Callable[[Sequence[ChatMessage]], list[ChatMessage]]], ...] = (
    ("as it is", as_it_is),
    ("neighbouring messages of one role were joined", joined),
    ("system text stands in the user message after it", without_system),
    ("system text stands in the user message after it and neighbours of one role were joined", by_turns),
)
"""From the least change to the greatest, with words for what was done."""


def _join(role: Literal["system", "user", "assistant"], messages: Sequence[ChatMessage]) -> ChatMessage:
    content = list(messages[0].content)
    for message in messages[1:]:
        content += [_BETWEEN, *message.content]
    return ChatMessage(role=role, content=content)
