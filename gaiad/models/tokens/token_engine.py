"""Counting, rendering and checking grammars inside the tokenizer child, for many GGUF files at once.

It loads vocabularies only, never weights. Requests are served by turns, so that a text of megabytes, a file never seen
or a grammar that takes seconds keeps nobody else waiting: what may take long or crash runs in throw-away processes.
"""

import os
from array import array
from collections.abc import Callable

from gaiad.generation import Segment
from gaiad.models.child.vocabulary import Untokenizable, Vocabulary
from gaiad.models.grammar import grammar_check
from gaiad.models.supervision.protocol import (
    PROTOCOL_VERSION,
    CheckGrammar,
    Compiled,
    Pong,
    Ready,
    Render,
    Rendered,
    Reply,
    Tokenize,
    Tokens,
    Words,
)
from gaiad.models.tokens.aside import Aside
from gaiad.models.tokens.template_shelf import TemplateShelf
from gaiad.models.tokens.throw_away import Died, Limits, ThrowAway
from gaiad.models.tokens.token_line import TokenLine, WordNews
from gaiad.models.tokens.turns import Refused, Steps, Turns
from gaiad.models.tokens.vocabulary_shelf import VocabularyShelf

SLICE_CHARS = 20_000
LONG_CHARS = 20_000  # llama.cpp takes milliseconds for these, for some texts the square of their length
_LONG_TEXT = Limits(cpu_s=60, wall_s=120.0)
_GRAMMAR = Limits(cpu_s=10, wall_s=30.0, memory_bytes=1 << 30)


class TokenEngine:
    """Serves one line; holds no file that it was not asked about."""

    def __init__(self) -> None:
        self._shelf = VocabularyShelf()
        self._templates = TemplateShelf()

    def describe(self) -> Ready:
        return Ready(version=PROTOCOL_VERSION, pid=os.getpid(), dimension=0, window=0)

    def open_line(self, reply: Callable[[Reply], None]) -> TokenLine:
        """Where the reader thread puts requests; `reply` is how they are answered."""
        self._reply = reply
        self._turns = Turns(reply)
        self._line = TokenLine()
        return self._line

    def serve(self) -> None:
        """Work until the line closes."""
        while True:
            self._turns.wait(self._line.descriptor)
            news = self._line.collect()
            if news.closed:
                return
            self._take(news)
            self._turns.step()

    def close(self) -> None:
        self._turns.close()

    def _take(self, news: WordNews) -> None:
        for ping_id in news.pings:
            self._reply(Pong(id=ping_id))
        for request in news.requests:
            self._turns.add(request.id, self._steps(request))
        for request_id in news.cancels:
            self._turns.cancel(request_id)

    def _steps(self, request: Words) -> Steps[Reply]:
        match request:
            case Tokenize():
                return self._tokenize(request)
            case Render():
                return self._render(request)
            case CheckGrammar():
                return self._check(request)

    def _tokenize(self, request: Tokenize) -> Steps[Reply]:
        if not request.texts:
            return Tokens(id=request.id, counts=[])
        shelved = yield from self._shelf.open(request.path)
        vocabulary = shelved.vocabulary  # both are held until the end: the last reference frees llama.cpp's own
        counts: list[int] = []
        ids: list[list[int]] = []
        done = 0
        for text in request.texts:
            size = sum(len(segment.text) for segment in text)
            if size > LONG_CHARS:
                tokens = yield from _aside(request, vocabulary, text, size)
            else:
                tokens = _numbers(request, vocabulary, text)
            counts.append(len(tokens))
            if not request.counts_only:
                ids.append(tokens)
            done += size + 20
            if done > SLICE_CHARS:
                done = 0
                yield None
        return Tokens(id=request.id, counts=counts, ids=ids)

    def _render(self, request: Render) -> Steps[Reply]:
        shelved = yield from self._shelf.open(request.path)
        template = yield from self._templates.open(request.path, request.template, shelved)
        return Rendered(id=request.id, segments=template.write(request.messages))

    def _check(self, request: CheckGrammar) -> Steps[Reply]:
        shelved = yield from self._shelf.open(request.path)
        vocabulary = shelved.vocabulary
        if shelved.prepared is None:
            shelved.prepared = Aside(lambda: grammar_check.prepare(shelved.vocabulary))
        yield shelved.prepared
        form = (request.grammar, request.schema, request.contract)
        trial = ThrowAway(lambda: grammar_check.compile_form(vocabulary, *form), _GRAMMAR)
        try:
            yield trial
            grammar, problem = grammar_check.outcome(trial.outcome())
        except Died as death:
            raise Refused(f"the grammar {death}; make it simpler") from death
        finally:
            trial.kill()
        if problem:
            raise Refused(problem)
        return Compiled(id=request.id, grammar=grammar)


def _numbers(request: Tokenize, vocabulary: Vocabulary, text: list[Segment]) -> list[int]:
    try:
        return vocabulary.encode(text) if request.beginning else vocabulary.tokens(text)
    except Untokenizable as error:
        raise Refused(f"{request.path}: {error}") from error


def _aside(request: Tokenize, vocabulary: Vocabulary, text: list[Segment], size: int) -> Steps[list[int]]:
    """The tokens of a long text, made in a throw-away process while others have their turns."""
    trial = ThrowAway(lambda: array("i", _numbers(request, vocabulary, text)).tobytes(), _LONG_TEXT)
    try:
        yield trial
        return array("i", trial.outcome()).tolist()
    except Died as death:
        raise Refused(f"{request.path}: tokenising a text of {size} characters {death}; shorten it") from death
    finally:
        trial.kill()
