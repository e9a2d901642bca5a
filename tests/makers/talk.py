"""Conversations that say what a test tells them to, when it does, for turns that run by themselves."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.chat import ChatAnswer, ChatRequest, HistoryNote


def answer(turn_id: str, text: str) -> ChatAnswer:
    return ChatAnswer(
        session_id="s", turn_id=turn_id, packet_id="", blocks=[], answer=text, sources=[], status="SUCCESS",
        engine="test", persona="plain", history=HistoryNote(sought=False, why=""), timings={}, tokens={},
    )  # fmt: skip


class Talk:
    """Conversations whose turns say what comes through `say`, until `end`. A key is the turn's id."""

    def __init__(self) -> None:
        self.words: dict[str, asyncio.Queue[Any]] = {}
        self.remembered: dict[str, ChatAnswer | Exception] = {}
        self.taken: list[RequestContext] = []
        self._made = 0

    def say(self, turn_id: str, *words: object) -> None:
        """Words, then "" for the end; an error is raised there."""
        for word in words:
            self.words.setdefault(turn_id, asyncio.Queue()).put_nowait(word)

    async def name(self, request: ChatRequest, call: RequestContext) -> tuple[ChatRequest, str]:
        if not request.message:
            raise BadInput("the message is empty; say something")
        await asyncio.sleep(0)
        self._made += 1
        return request, request.idempotency_key or f"turn_{self._made}"

    async def chat(self, request: ChatRequest, call: RequestContext) -> AsyncGenerator[tuple[str, object], None]:
        self.taken.append(call)
        words = self.words.setdefault(call.turn_id, asyncio.Queue())
        said = ""
        yield "turn", {"turn_id": call.turn_id}
        try:
            while word := await words.get():
                if isinstance(word, Exception):
                    raise word
                said += word
                yield "delta", {"text": word}
            yield "done", answer(call.turn_id, said)
        finally:
            self.remembered[call.turn_id] = answer(call.turn_id, said)

    async def again(self, turn_id: str, channel: str, call: RequestContext) -> ChatAnswer:
        found = self.remembered.get(turn_id, NotFound(f"no turn is called {turn_id!r}"))
        if isinstance(found, Exception):
            raise found
        return msgspec.structs.replace(found, notes=[channel])
