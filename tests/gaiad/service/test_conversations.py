"""What conversations do around a turn: nothing is waited for ahead of a session's line."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gaiad.base.config import load_config
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.service.conversations import Conversations
from gaiad.wire.chat import ChatRequest
from router.redact.stream import RedactionRules
from router.routing import routing_of


class Line:
    """A turn taker that notes in which order turns come to it."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def use_memory(self, kept: object) -> None:
        """Nothing is remembered here."""

    async def take(self, request: ChatRequest, call: RequestContext) -> AsyncGenerator[tuple[str, object], None]:
        self.order.append(request.message)
        yield "delta", {"text": "heard"}


async def test_turns_come_to_their_sessions_line_in_the_order_asked_though_the_first_reads_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = iter([0.2, 0.0])
    monkeypatch.setattr(RedactionRules, "read_tables", lambda _: time.sleep(next(waits)))
    taker, nothing = Line(), object()
    parts: Any = (taker, nothing, nothing, nothing, nothing, Metrics(), nothing)
    config = load_config(environment={})
    talks = Conversations(*parts, routing_of(config), config.memory, lambda _: None)

    async def chat(message: str) -> None:
        async for _ in talks.chat(ChatRequest(message=message, session_id="s", channel="web_chat"), RequestContext()):
            pass

    await asyncio.gather(chat("first"), chat("second"))
    assert taker.order == ["first", "second"]
