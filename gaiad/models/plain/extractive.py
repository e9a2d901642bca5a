"""The model that is not a model: it chooses sentences of the context and quotes them (decision 4)."""

import asyncio
import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Sequence

import msgspec
import Stemmer

from constants.load import load
from gaiad.base.citations import as_text, mark
from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.models.child.text_stream import TextStream
from gaiad.models.plain.call_watch import check_request
from gaiad.models.tokens.word_tokenizer import WordTokenizer, count_words, cut_words, joined, role_lines
from gaiad.wire.generation import Generated, GenerateRequest, Segment, TextDelta
from gaiad.wire.status import ModelStatus

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9À-Þ¿¡])"  # a full stop, and a capital after it
    r"|(?<=[。！？])"
    r"|\n\s*\n|\n\s*(?=[-*•#>]\s|\d{1,3}[.)]\s)"  # an empty line, a list mark, a heading
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|etc|approx|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|Sec|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
    r"|(?:^|[\s(])[A-Z])\.$"
)
_ABBREVIATION_LENGTH = 9
_WORTH_OF_BEST = 0.5


class ExtractedQuote(msgspec.Struct, frozen=True):
    """A sentence as it stands, and the packet it is from."""

    text: str
    source: str


class _WordList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without the white space between them."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        if _ABBREVIATION.search(text[max(start, match.start() - _ABBREVIATION_LENGTH) : match.start()]):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def choose(question: str, texts: Sequence[ExtractedQuote]) -> list[ExtractedQuote]:
    """Sentences that answer `question`, the best first and equals in order; the same words once.

    Only those worth half as much as the best: the rest shares a word by chance.
    """
    pool = [ExtractedQuote(sentence, text.source) for text in texts for sentence in sentences(text.text)]
    wanted = topic_words(question)
    shared = [wanted & topic_words(quote.text) for quote in pool]
    spread = Counter(word for words in shared for word in words)
    worth = [sum(math.log1p(len(pool) / spread[word]) for word in sorted(words)) for words in shared]
    enough = _WORTH_OF_BEST * max(worth, default=0.0)
    fitting = [place for place, value in enumerate(worth) if value > 0.0 and value >= enough]
    once: dict[str, ExtractedQuote] = {}
    for place in sorted(fitting, key=lambda place: -worth[place]):  # a stable sort: equals stay in order
        once.setdefault(" ".join(pool[place].text.lower().split()), pool[place])
    return list(once.values())


def topic_words(text: str) -> set[str]:
    """The stems of the words that carry a topic; accents count alike, composed with their letters or not."""
    written = unicodedata.normalize("NFC", text)
    words = {re.sub(r"['’]", "", word.lower().removesuffix("'s").removesuffix("’s")) for word in _WORD.findall(written)}
    return {_stem(word) for word in words if word and word not in _stop_words()}


@functools.lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("porter")


@functools.cache
def _stop_words() -> frozenset[str]:
    return frozenset(load("stop_words.toml", _WordList).words)


NOTHING_FITS = "Nothing in the text I was given answers this, and without a model that writes I can only quote."
_MOST_QUOTES = 8
_FINGERPRINT = "extractive:1"
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

    async def beat(self, call: RequestContext) -> float:
        """The milliseconds one sentence takes. Raises DeadlineExceeded, Cancelled."""
        call.check(self._clock.monotonic())
        begun = self._clock.monotonic()
        choose("heart", [ExtractedQuote("A heart beats.", "")])
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

    async def generate(
        self, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """Sentence by sentence, as many as fit `max_tokens`, then one Generated; a token is a word or a mark.

        Raises BadInput for a form (regex, schema, contract), DeadlineExceeded, Cancelled.
        """
        check_request(request)
        if request.regex or request.schema is not None or request.contract is not None:
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


def split_prompt(request: GenerateRequest) -> tuple[str, list[ExtractedQuote]]:
    """The question (what has no source in the last user message, or in a prompt as it stands) and the context."""
    segments = request.segments or [segment for message in request.messages for segment in message.content]
    asked: list[list[Segment]] = [message.content for message in request.messages if message.role == "user"]
    last = asked[-1] if asked else request.segments
    question = "\n".join(segment.text for segment in last if not segment.source)
    return question, [ExtractedQuote(segment.text, segment.source) for segment in segments if segment.source]


def cited(source: str) -> str:
    """The mark behind what a packet says (GAM, "Citations")."""
    return mark(source)


def _shown(text: str) -> str:
    """A sentence in one line, without control characters, and without anything that passes for a citation."""
    return as_text(_CONTROL.sub("", " ".join(text.split())))
