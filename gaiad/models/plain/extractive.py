"""A model without weights: it answers with sentences of the text it was given, word for word (decision 4).

The embedded default, so that a council works before anybody downloaded a model. Deterministic, no network, no wait; it
cannot reason, and it says so when nothing it was given fits the question.
"""

import asyncio
import re
from collections.abc import AsyncGenerator

from gaiad.clock import Clock
from gaiad.errors import BadInput
from gaiad.generation import Generated, GenerateRequest, Segment, TextDelta
from gaiad.models.child.text_stream import TextStream
from gaiad.models.plain.requests import check_request
from gaiad.models.plain.sentence_choice import Quote, choose
from gaiad.models.tokens.word_tokenizer import WordTokenizer, count_words, cut_words, joined, role_lines
from gaiad.ports import Call
from gaiad.status_schemas import ModelStatus

NOTHING_FITS = "Nothing in the text I was given answers this, and without a model that writes I can only quote."
_MOST_QUOTES = 8
_FINGERPRINT = "extractive:1"
_CITATION = re.compile(r"\[\s*packet\s*:", re.IGNORECASE)
_NO_BRACKETS = str.maketrans("[]", "()")  # an id with brackets could pass for two citations
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class ExtractiveModel:
    """The Model port on quotes. The context is all segments with a source, the question what the user last said."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._tokenizer = WordTokenizer(clock)

    @property
    def tokenizer(self) -> WordTokenizer:
        return self._tokenizer

    @property
    def fingerprint(self) -> str:
        """Names the way sentences are chosen; it changes when the same request would get other sentences."""
        return _FINGERPRINT

    async def start(self) -> None:
        """Nothing to load."""

    async def wait_ready(self, timeout_s: float) -> None:
        """Always ready."""

    async def close(self) -> None:
        """Nothing to close."""

    async def beat(self, call: Call) -> float:
        """The milliseconds one sentence takes. Raises DeadlineExceeded, Cancelled."""
        call.check(self._clock.monotonic())
        begun = self._clock.monotonic()
        choose("heart", [Quote("A heart beats.", "")])
        return (self._clock.monotonic() - begun) * 1e3

    def status(self) -> ModelStatus:
        return ModelStatus(
            role=self._name,
            kind="extractive",
            path_or_url="",
            state="ready",
            pid=0,
            reason="",
            fingerprint=_FINGERPRINT,
        )

    def stderr_lines(self) -> list[str]:
        """None: there is no process."""
        return []

    async def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[TextDelta | Generated, None]:
        """Sentence by sentence, as many as fit `max_tokens`, then one Generated; a token is a word or a mark.

        Raises BadInput for a form (grammar, schema, contract), DeadlineExceeded, Cancelled.
        """
        check_request(request)
        if request.grammar or request.schema is not None or request.contract is not None:
            raise BadInput("an extractive model cannot write to a form; give the role a model")
        call.check(self._clock.monotonic())
        begun = self._clock.monotonic()
        parts, room_left = await asyncio.to_thread(_answer, request)  # a long context takes its time
        first = self._clock.monotonic()
        stream, texts = TextStream(request.stop), list[str]()
        for part in parts:
            call.check(self._clock.monotonic())
            text = stream.feed(part.encode("utf-8", "replace"))
            if text:
                texts.append(text)
                yield TextDelta(text=text, tokens=count_words("".join(texts)))
        if held := stream.finish():
            texts.append(held)
            yield TextDelta(text=held, tokens=count_words("".join(texts)))
        whole = "".join(texts)
        yield Generated(
            text=whole,
            reason="stop" if stream.stopped else "end" if room_left else "length",
            stop=stream.stopped or "",
            prompt_tokens=count_words(joined(request.segments or role_lines(request.messages))),
            cached_tokens=0,
            tokens=count_words(whole),
            seed=request.seed or 0,
            fingerprint=_FINGERPRINT,
            queue_ms=0.0,
            prefill_ms=(first - begun) * 1e3,
            decode_ms=(self._clock.monotonic() - first) * 1e3,
        )


def _answer(request: GenerateRequest) -> tuple[list[str], bool]:
    """The parts of the reply, and whether nothing was left out for want of room."""
    question, context = split_prompt(request)
    quotes = [f"{_shown(quote.text)} {cited(quote.source)}" for quote in choose(question, context)]
    if not quotes:
        text = cut_words(NOTHING_FITS, request.max_tokens)
        return [text], text == NOTHING_FITS
    parts: list[str] = []
    left = request.max_tokens
    wanted = quotes[:_MOST_QUOTES]
    for quote in wanted:
        size = count_words(quote)
        if size <= left:
            parts.append(f"{' ' if parts else ''}{quote}")
            left -= size
    return parts, len(parts) == len(wanted)


def split_prompt(request: GenerateRequest) -> tuple[str, list[Quote]]:
    """The question (what has no source in the last user message, or in a prompt as it stands) and the context."""
    segments = request.segments or [segment for message in request.messages for segment in message.content]
    asked: list[list[Segment]] = [message.content for message in request.messages if message.role == "user"]
    last = asked[-1] if asked else request.segments
    question = "\n".join(segment.text for segment in last if not segment.source)
    return question, [Quote(segment.text, segment.source) for segment in segments if segment.source]


def cited(source: str) -> str:
    """The mark behind what a packet says (GAM, "Citations")."""
    return f"[Packet: {source.translate(_NO_BRACKETS)}]"


def _shown(text: str) -> str:
    """A sentence in one line, without control characters, and without anything that passes for a citation."""
    return _CITATION.sub("(Packet:", _CONTROL.sub("", " ".join(text.split())))
