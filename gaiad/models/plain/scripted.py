"""A model that says what a script tells it to, for tests and demonstrations. Ships with the package.

A script is a TOML file:

    [[reply]]
    text = "VOTE: yes"          # what it says
    match = "should we .*"      # only when this pattern is found in the prompt; without it, for any prompt
    delay_ms = 20.0             # before the first piece and between pieces
    chunk_characters = 4        # how much comes at once
    error = "unavailable"       # instead of an end; or worker_died, deadline_exceeded, cancelled, bad_input
    times = 1                   # used so often, then the next that fits; 0 is always

Replies are tried in order; the first that fits the prompt and is not used up is taken.
"""

import hashlib
import re
import tomllib
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import (
    BadInput,
    Cancelled,
    DeadlineExceeded,
    GaiadError,
    Unavailable,
    WorkerDied,
)
from gaiad.base.ports import RequestContext
from gaiad.models.child.text_stream import TextStream
from gaiad.models.plain.call_watch import check_request, pause
from gaiad.models.tokens.word_tokenizer import WordCount, WordTokenizer, count_words, cut_words, joined, role_lines
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.status import ModelStatus

_SEEN = 100
_ERRORS: dict[str, type[GaiadError]] = {
    "unavailable": Unavailable,
    "worker_died": WorkerDied,
    "deadline_exceeded": DeadlineExceeded,
    "cancelled": Cancelled,
    "bad_input": BadInput,
}


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply; see the module. `text` that comes before an `error` is still given out."""

    text: str = ""
    match: str = ""
    delay_ms: float = 0.0
    chunk_characters: int = 16
    error: Literal["", "unavailable", "worker_died", "deadline_exceeded", "cancelled", "bad_input"] = ""
    times: int = 0


class _Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reply: list[ScriptedReply]


msgspec.json.Decoder(_Script)  # builds what msgspec knows of it: two threads that do so at once crash (0.22)


def read_script(path: Path) -> list[ScriptedReply]:
    """Raises BadInput that names the file and the key."""
    try:
        script = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Script)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give the path of a script") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as TOML ({error}); correct the file") from error
    except msgspec.ValidationError as error:
        raise BadInput(f"{path}: {error}; a script is a list of [[reply]] with text, match, delay_ms, ...") from error
    _check(script.reply, str(path))
    return script.reply


def _check(replies: Sequence[ScriptedReply], where: str) -> None:
    for number, reply in enumerate(replies):
        place = f"{where}: reply[{number}]"
        try:
            re.compile(reply.match)
        except re.error as error:
            raise BadInput(f"{place}.match = {reply.match!r} is not a valid pattern ({error}); correct it") from error
        if reply.chunk_characters < 1:
            raise BadInput(f"{place}.chunk_characters = {reply.chunk_characters}: give 1 or more")
        if not 0.0 <= reply.delay_ms <= 3.6e6:
            raise BadInput(f"{place}.delay_ms = {reply.delay_ms:g}: give 0 to 3600000")
        if reply.times < 0:
            raise BadInput(f"{place}.times = {reply.times}: give 0 for always, or a number of times")


class ScriptedModel:
    """The Model port on a script. `seen` holds the last requests it got, in order. A token is a word or a mark."""

    def __init__(self, name: str, replies: Sequence[ScriptedReply], clock: Clock, path: str = "") -> None:
        _check(replies, path or name)
        self._name = name
        self._replies = list(replies)
        self._used = [0] * len(self._replies)
        self._clock = clock
        self._path = path
        self._tokenizer = WordTokenizer(clock)
        self._fingerprint = f"scripted:{hashlib.sha256(msgspec.json.encode(self._replies)).hexdigest()[:16]}"
        self.seen: list[GenerateRequest] = []

    @classmethod
    def from_file(cls, name: str, path: Path, clock: Clock) -> "ScriptedModel":
        """Raises BadInput that names the file and the key."""
        return cls(name, read_script(path), clock, str(path))

    @property
    def tokenizer(self) -> WordTokenizer:
        return self._tokenizer

    @property
    def fingerprint(self) -> str:
        """Names what the script says, wherever it lies."""
        return self._fingerprint

    async def start(self) -> None:
        """Nothing to load."""

    async def wait_ready(self, timeout_s: float) -> None:
        """Always ready."""

    async def close(self) -> None:
        """Nothing to close."""

    async def beat(self, call: RequestContext) -> float:
        """0: it takes no time. Uses up no reply. Raises DeadlineExceeded, Cancelled."""
        call.check(self._clock.monotonic())
        return 0.0

    def status(self) -> ModelStatus:
        return ModelStatus(
            role=self._name,
            kind="scripted",
            path_or_url=self._path,
            state="ready",
            pid=0,
            reason="",
            fingerprint=self.fingerprint,
        )

    def stderr_lines(self) -> list[str]:
        """None: there is no process."""
        return []

    async def generate(
        self, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """The pieces of the scripted reply up to a stop string or `max_tokens`, then one Generated, or its error.

        Raises BadInput when no reply fits the prompt, what the script says, DeadlineExceeded, Cancelled.
        """
        check_request(request)
        call.check(self._clock.monotonic())
        self.seen.append(request)
        del self.seen[:-_SEEN]
        prompt = joined(request.segments or role_lines(request.messages))
        reply = self._next(prompt)
        begun = self._clock.monotonic()
        first: float | None = None
        stream, texts, count = TextStream(request.stop), list[str](), WordCount()
        text = cut_words(reply.text, request.max_tokens)
        for piece in [*_pieces(text, reply.chunk_characters), ""]:
            if piece or not text:
                await pause(reply.delay_ms / 1e3, call, self._clock)
            first = self._clock.monotonic() if first is None else first
            shown = stream.feed(piece.encode("utf-8", "replace")) if piece else stream.finish()
            if shown:
                texts.append(shown)
                yield TextDelta(text=shown, tokens=count.feed(shown))
            if stream.stopped is not None:
                break
        if reply.error:
            raise _ERRORS[reply.error](f"{self._name}: the script says {reply.error} here")
        whole = "".join(texts)
        yield Generated(
            text=whole,
            reason="stop" if stream.stopped else "end" if text == reply.text else "length",
            stop=stream.stopped or "",
            prompt_tokens=count_words(prompt),
            cached_tokens=0,
            tokens=count_words(whole),
            seed=request.seed or 0,
            fingerprint=self.fingerprint,
            queue_ms=0.0,
            prefill_ms=((first or begun) - begun) * 1e3,
            decode_ms=(self._clock.monotonic() - (first or begun)) * 1e3,
        )

    def _next(self, prompt: str) -> ScriptedReply:
        for number, reply in enumerate(self._replies):
            left = reply.times == 0 or self._used[number] < reply.times
            if left and (not reply.match or re.search(reply.match, prompt)):
                self._used[number] += 1
                return reply
        raise BadInput(
            f"{self._path or self._name}: no reply is left for the prompt {prompt[-120:]!r}; add one without match"
        )


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))
