"""The model's part of a turn: the request, the text on its way to the person, and what is kept of both."""

from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

import msgspec

from gaiad.chat_schemas import ChatAnswer, ChatBlock, ChatRequest
from gaiad.cognition import CHOSEN_PERSONA, Names, Prepared
from gaiad.errors import Cancelled, GaiadError
from gaiad.generation import Block, Contract, Generated, GenerateRequest, Sampling, TextDelta
from gaiad.logs import get_logger
from gaiad.memory_schemas import SessionTurn, TurnBlock, TurnMessage
from gaiad.ports import Call
from gaiad.remembering import Keeper, Sent
from gaiad.reply_gate import ReplyGate

RESPONSE = "RESPONSE"
ONLY_QUOTES = (
    "No chat model is set up, so I can only quote your packets, and nothing in them answers this. Ask about something "
    "that was said before, or give the role a model (roles.prime)."
)
LEFT = "the caller left before the end"
_CHARACTERS_PER_TOKEN = 8
_log = get_logger("gaiad.cognition")
Event = tuple[str, object]


class Answering:
    """The model's part of a turn, and what is kept of it."""

    def __init__(
        self, keeper: Keeper, request: ChatRequest, names: Names, prepared: Prepared, started: str, call: Call
    ) -> None:
        self._keeper = keeper
        self._request = request
        self._names = names
        self._prepared = prepared
        self._started = started
        self._call = call
        known = {item.packet_id for item in prepared.built.packet.context}
        self._gate = ReplyGate(RESPONSE, known | {page.packet_id for page in _citations(prepared)})
        self._shown: list[str] = []
        self._lost: list[str] = []
        self._asked = _request(request, prepared)

    async def events(self) -> AsyncGenerator[Event, None]:
        """delta after delta, then done."""
        reply: Generated | None = None
        status, failure = "CANCELLED", LEFT
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Generated):
                        reply = piece
                    elif text := self._gate.feed(piece.text):
                        self._shown.append(text)
                        yield "delta", {"text": text}
            if rest := self._gate.finish():
                self._shown.append(rest)
                yield "delta", {"text": rest}
            status, failure = self._prepared.history.status or "SUCCESS", ""
        except Cancelled:
            raise
        except Exception as error:
            failure = _words(error)
            raise
        finally:
            await self._keeper.finish(self._keep(reply, status, failure))
        assert reply is not None
        yield "done", self._answer(reply, status)

    async def _pieces(self) -> AsyncGenerator[TextDelta | Generated, None]:
        """The model's text. One that only quotes says what the research found, whose citations are verified already."""
        found, model = self._prepared.found, self._prepared.model
        if model.kind == "extractive":
            says_more = found is not None and bool(found.source_packets or self._prepared.needed)
            text = found.answer if found and says_more else ONLY_QUOTES
            yield TextDelta(text=text, tokens=0)
            yield _quoted(text, model.fingerprint, self._prepared.built.manifest.total_tokens)
            return
        async with aclosing(model.generate(self._asked, self._call)) as pieces:
            async for piece in pieces:
                yield piece

    async def _keep(self, reply: Generated | None, status: str, failure: str) -> None:
        """The packet whatever came of it; the turn when it has an answer, or what of one the person waited for.

        Neither failing takes the other along, nor the answer, nor the place of an error that is on its way.
        """
        await self._kept("its packet was not kept", self._keep_packet(reply, failure))
        if reply is None and (failure != LEFT or not self._shown):
            return  # the caller got an error and asks again, or left before anything was said
        await self._kept("not remembered", self._keeper.remember(self._turn(status), self._call.tenant))

    async def _kept(self, otherwise: str, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`; when it fails, the log and the answer's notes say so."""
        try:
            await work
        except Exception as error:  # noqa: BLE001  (logged and noted in the answer, which is there and has to arrive)
            self._lost.append(f"{otherwise}: {_words(error)}")
            _log.error("not_kept", what=otherwise, error=_words(error), exc_info=error)

    async def _keep_packet(self, reply: Generated | None, failure: str) -> None:
        sent = Sent(
            packet=self._prepared.built.packet,
            manifest=self._prepared.built.manifest,
            request=_logged(self._asked),
            reply={} if reply is None else msgspec.to_builtins(reply),
            failure=failure,
        )
        await self._keeper.keep(self._names.session_id, sent, self._call.tenant)

    def _turn(self, status: str) -> SessionTurn:
        text, chosen = "".join(self._shown), self._prepared.chosen_persona
        return SessionTurn(
            session_id=self._names.session_id,
            turn_id=self._names.turn_id,
            messages=[
                TurnMessage(role="user", content=self._request.message),
                *([TurnMessage(role="assistant", content=text)] if text else []),
            ],
            started_at=self._started,
            ended_at=self._keeper.now(),
            persona=self._prepared.persona,
            model=self._prepared.model.name,
            fingerprint=self._prepared.model.fingerprint,
            status=status,
            blocks=[TurnBlock(marker=RESPONSE, text=text)] if text else [],
            sources=self._sources(),
            metadata={CHOSEN_PERSONA: chosen} if chosen else {},
        )

    def _sources(self) -> list[str]:
        """The packets cited, else those that stood in the context."""
        return self._gate.cited or list(dict.fromkeys(item.packet_id for item in self._prepared.built.packet.context))

    def _answer(self, reply: Generated, status: str) -> ChatAnswer:
        prepared, text = self._prepared, "".join(self._shown)
        notes = [*prepared.notes, *self._lost]
        if self._gate.removed:
            named = ", ".join(dict.fromkeys(self._gate.removed))
            notes.append(f"citations of packets that were not in the context were removed: {named}")
        if reply.reason == "length":
            notes.append(f"the reply ended at its limit of {self._asked.max_tokens} tokens")
        return ChatAnswer(
            session_id=self._names.session_id,
            turn_id=self._names.turn_id,
            packet_id=prepared.built.packet.packet_id,
            blocks=[ChatBlock(marker=RESPONSE, text=text)] if text else [],
            answer=text,
            sources=self._sources(),
            status=status,
            engine=engine_name(prepared.model.name, prepared.model.kind),
            persona=prepared.persona,
            history=prepared.history,
            timings={
                "prepare_ms": round(prepared.took_ms, 3),
                **{name: round(getattr(reply, name), 3) for name in ("queue_ms", "prefill_ms", "decode_ms")},
            },
            tokens={
                "prompt": reply.prompt_tokens or prepared.built.manifest.total_tokens,
                "cached": reply.cached_tokens,
                "reply": reply.tokens,
            },
            notes=notes,
        )


def _request(request: ChatRequest, prepared: Prepared) -> GenerateRequest:
    """What is asked of the model. A reply is one RESPONSE block; only a GGUF can be held to that."""
    manifest = prepared.built.manifest
    limit = manifest.reserve_tokens * _CHARACTERS_PER_TOKEN
    formed = prepared.model.kind == "gguf"
    return GenerateRequest(
        messages=prepared.built.messages,
        max_tokens=manifest.reserve_tokens,
        seed=request.seed,
        sampling=Sampling(temperature=request.temperature),
        contract=Contract(blocks=[Block(marker=RESPONSE, max_characters=limit)]) if formed else None,
    )


def _logged(asked: GenerateRequest) -> dict[str, Any]:
    """The request but for the messages, which the packet renders to again."""
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(asked, messages=[]))
    return found


def _quoted(text: str, fingerprint: str, prompt_tokens: int) -> Generated:
    """All its time went into the research."""
    return Generated(
        text=text,
        reason="end",
        stop="",
        prompt_tokens=prompt_tokens,
        cached_tokens=0,
        tokens=len(text.split()),
        seed=0,
        fingerprint=fingerprint,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )


def _words(error: Exception) -> str:
    return error.message if isinstance(error, GaiadError) else repr(error)


def _citations(prepared: Prepared) -> list[Any]:
    return [] if prepared.found is None else list(prepared.found.citations)


def engine_name(name: str, kind: str) -> str:
    """What wrote the answer, for its footer (decision 4)."""
    return name if name == kind else f"{name} ({kind})"
