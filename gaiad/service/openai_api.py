"""OpenAI's API on gaiad: which model id means what, and in which session a conversation is. A part of `service`.

`gaiad` and `gaiad-fast` take turns of the council, with memory; a role's name asks its model and remembers nothing.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from council.roles import Role
from gaiad.archive.archive import LocalArchive
from gaiad.archive.storing.handed_over import known_part, only_new, session_turns
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ids import IdMaker
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.child.text_stream import TextStream
from gaiad.service.conversations import Conversations
from gaiad.service.models import ROLES, Models
from gaiad.service.side_tasks import answer, read_side_task
from gaiad.wire.chat import ChatAnswer, ChatRequest
from gaiad.wire.generation import ChatTurn, GenerateBody, GenerateReply
from gaiad.wire.memory import IngestedTurn, IngestSession
from gaiad.wire.openai import Asked, Begun, Finished, Said, Source
from gaiad.wire.schemas import Citation

COUNCIL, FAST, EMBEDDER = "gaiad", "gaiad-fast", "embedder"
RETRACTED = "\n\n[Disregard the text above: the council retracted it.]\n\n"
_SEARCHED_SESSIONS = 30  # those spoken in last, one of which a history may continue
_TURNS = 200
_CITED = re.compile(r"\[Packet: ([^\[\]\n]{1,400})\]")
_SIDE_TASKS: Role = "lite"

Piece = Begun | str | Finished


class UnknownModel(NotFound):
    """No model has this id."""

    code = "model_not_found"


class OpenAiApi:
    """One for the daemon."""

    def __init__(self, models: Models, conversations: Conversations, archive: LocalArchive, ids: IdMaker) -> None:
        self._models = models
        self._conversations = conversations
        self._archive = archive
        self._ids = ids

    def model_ids(self) -> list[str]:
        """Those that chat, in the order to show them; known also while the models load.

        Front ends offer the whole list to chat with, so the embedder is not in it; it is known by its id.
        """
        return [COUNCIL, FAST, *ROLES]

    def check_model(self, name: str, *, chats: bool = True, embeds: bool = False) -> None:
        """Raise UnknownModel naming those that can be asked."""
        embedders = [EMBEDDER, COUNCIL] if self._models.embeds or not chats else []
        fit = [*(self.model_ids() if chats else []), *(embedders if embeds else [])]
        if name not in fit:
            raise UnknownModel(f"the model {name[:100]!r} does not exist; choose one of {', '.join(fit)}")

    async def reply(self, asked: Asked, call: RequestContext) -> AsyncGenerator[Piece, None]:
        """Begun, text as it comes, Finished. Raises BadInput, UnknownModel, and as chat and generate do."""
        self.check_model(asked.model)
        if asked.temporary:
            call.priority = Priority.BACKGROUND
            pieces = self._side_task(asked, call)
        elif asked.model in ROLES:
            pieces = self._by_role(asked, asked.model, call)
        else:
            pieces = self._by_council(asked, call)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _side_task(self, asked: Asked, call: RequestContext) -> AsyncGenerator[Piece, None]:
        """A front end's title or tags: by the model that can, else by rule."""
        task, finished = read_side_task(asked.messages[-1].text), None
        role = next((role for role in ROLES if role == asked.model), _SIDE_TASKS)
        if self._models.able(role, "title"):
            async with aclosing(self._by_role(asked, role, call)) as pieces:
                async for piece in pieces:
                    finished = piece if isinstance(piece, Finished) else finished
        text = answer(task, finished.text if finished else "")
        yield Begun()
        yield text
        if finished is None:
            yield Finished(text=text, reason="stop", prompt_tokens=0, cached_tokens=0, tokens=0)
        else:
            yield msgspec.structs.replace(finished, text=text)

    async def _by_role(self, asked: Asked, role: str, call: RequestContext) -> AsyncGenerator[Piece, None]:
        given: dict[str, Any] = {
            name: getattr(asked, name)
            for name in ("temperature", "top_p", "frequency_penalty", "presence_penalty")
            if getattr(asked, name) is not None
        }
        if asked.max_tokens:
            given["max_tokens"] = asked.max_tokens
        messages = [ChatTurn(role=said.role, content=said.text) for said in asked.messages]
        body = GenerateBody(
            role=role, messages=messages, seed=asked.seed, stop=asked.stop, schema=asked.schema, **given
        )
        begun = False
        async with aclosing(self._models.generate(body, call)) as pieces:
            async for piece in pieces:
                if not begun:  # a refusal comes before it
                    begun = True
                    yield Begun()
                if not isinstance(piece, GenerateReply):
                    yield piece.text
                    continue
                reason: Any = "length" if piece.reason == "length" else "stop"
                yield Finished(
                    text=piece.text,
                    reason=reason,
                    prompt_tokens=piece.prompt_tokens,
                    cached_tokens=piece.cached_tokens,
                    tokens=piece.tokens,
                )

    async def _by_council(self, asked: Asked, call: RequestContext) -> AsyncGenerator[Piece, None]:
        if asked.schema is not None:
            raise BadInput(f"response_format: {asked.model} answers in prose; ask {', '.join(ROLES)} for a JSON Schema")
        message, history = last_message(asked.messages)
        request = ChatRequest(
            message=message,
            session_id=await self._session(asked, history, call),
            max_tokens=asked.max_tokens,
            seed=asked.seed,
            temperature=asked.temperature,
            depth="fast" if asked.model == FAST else "",
            tenant=asked.tenant,
        )
        told = _Told(asked.stop)
        async with aclosing(self._conversations.chat(request, call)) as events:
            async for name, data in events:
                if isinstance(data, ChatAnswer):
                    for piece in told.end(data):
                        yield piece
                elif name == "turn":
                    yield Begun(data["turn_id"], data["session_id"])  # type: ignore[index]  # as every turn has them
                elif text := told.hear(name, data):
                    yield text

    async def _session(self, asked: Asked, history: Sequence[Said], call: RequestContext) -> str:
        """The session that is named, else the one that the history continues, else one in which the history is kept.

        "" begins a new one. Of a window that slid on only what is new is kept, as in JIT's ingest_session.
        """
        if not history:
            return asked.session_id
        turns = [IngestedTurn(role=said.role, content=said.text) for said in history]
        session_id = asked.session_id or await self._continued(turns, call)
        request = IngestSession(tenant_id=asked.tenant, turns=turns, session_id=session_id or self._ids.make("ses"))
        try:
            known = await self._archive.session_turns(request.session_id, call.seeing_all(), limit=_TURNS, latest=True)
        except NotFound:  # a tenant that nothing was kept in yet
            known = []
        fresh, repeated = only_new(request, known)
        if fresh.turns and (repeated or not known):  # else what the client altered would be kept twice
            await self._archive.remember_turns(session_turns(fresh), call, as_session=True)
        return request.session_id

    async def _continued(self, turns: Sequence[IngestedTurn], call: RequestContext) -> str:
        """The session spoken in last of which these turns are a part, "" for none."""
        try:
            sessions = await self._archive.sessions(call, _SEARCHED_SESSIONS)
        except NotFound:
            return ""
        for session in sessions:
            known = await self._archive.session_turns(session.session_id, call, limit=_TURNS, latest=True)
            if known_part(known, turns) or known_part(known, turns, ("user",)):
                return session.session_id
        return ""

    async def session_of_turn(self, turn_id: str, call: RequestContext) -> str:
        """The session a turn was taken in. Raises NotFound."""
        (summary,) = await self._archive.packet_summaries([turn_id], call)
        if not summary.session_id:
            raise NotFound(f"no turn is called {turn_id!r}")
        return summary.session_id

    async def embed(self, texts: Sequence[str], call: RequestContext) -> tuple[list[bytes], int]:
        """Vectors as little-endian 32-bit floats, and what the texts cost in tokens of the model of role prime.

        Raises BadInput, Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        return await self._models.embed(texts, call)


class _Told:
    """The council's answer on its way out, up to the first of the stop strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._stream = TextStream(stops)
        self._heard = ""

    def hear(self, name: str, data: Any) -> str:
        if name == "retract" and self._heard:
            self._heard, self._stream = "", TextStream(self._stops)
            return RETRACTED
        if name != "delta" or data.get("manner", "show") != "show":
            return ""
        self._heard += data["text"]
        return self._stream.feed(data["text"].encode("utf-8", "replace"))

    def end(self, answer: ChatAnswer) -> list[str | Finished]:
        """What was not said yet, and the whole."""
        rest = ""
        if answer.answer.startswith(self._heard):
            rest = self._stream.feed(answer.answer[len(self._heard) :].encode("utf-8", "replace"))
        rest += self._stream.finish()
        text = answer.answer
        for stop in self._stops:
            text = text.partition(stop)[0] if stop else text
        finished = Finished(
            text=text,
            reason="stop",
            prompt_tokens=answer.tokens.get("prompt", 0),
            cached_tokens=answer.tokens.get("cached", 0),
            tokens=answer.tokens.get("reply", 0),
            sources=sources_in(text, answer),
        )
        return [rest, finished] if rest else [finished]


def sources_in(text: str, answer: ChatAnswer) -> list[Source]:
    """The inline citations of a text, with what their packets are about."""
    cited = {citation.packet_id: citation for citation in answer.citations}
    return [
        Source(found.start(), found.end(), packet, *_title_and_quote(packet, cited.get(packet)))
        for found in _CITED.finditer(text)
        if (packet := found[1].strip()) in answer.sources
    ]


def _title_and_quote(packet: str, citation: Citation | None) -> tuple[str, str]:
    title = citation.topic if citation else ""
    return title or packet, citation.quote if citation else ""


def last_message(messages: Sequence[Said]) -> tuple[str, list[Said]]:
    """What is said now, and what was said before it. System messages are left out: gaiad has its own identity.

    Raises BadInput when nothing was said.
    """
    said = [one for one in messages if one.role != "system" and one.text.strip()]
    if not said or said[-1].role != "user":
        raise BadInput("messages: the last message must be the user's and have text")
    return said[-1].text, said[:-1]
