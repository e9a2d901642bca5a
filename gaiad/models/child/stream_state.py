"""One request inside the generating worker: its tokens, how far they are evaluated, sampler, text and times."""

import time
from typing import Literal

from gaiad.models.child.sampling import FormFault, Sampler
from gaiad.models.child.sequences import HeldSequence
from gaiad.models.child.step_plan import Want
from gaiad.models.child.text_stream import TextStream
from gaiad.models.child.vocabulary import Vocabulary
from gaiad.models.supervision.protocol import Delta, Failed, Finished, Generate

_SHOWN_TOKENS = 60


class StreamState:
    """Waiting while `held` is None, live otherwise. An interrupted one keeps all but its place in the context."""

    def __init__(self, request: Generate, arrival: int, vocabulary: Vocabulary) -> None:
        self.request = request
        self.id = request.id
        self.rank = (request.priority, arrival)
        self.tokens = vocabulary.encode(request.segments)
        self.prompt_tokens = len(self.tokens)
        self.cached_tokens = 0
        self.held: HeldSequence | None = None
        self._vocabulary = vocabulary
        self._sampler = Sampler(request.seed, request.sampling, vocabulary, request.grammar)
        self._text = TextStream(request.stop)
        self._arrived = time.monotonic()
        self._placed = self._first = 0.0

    def __lt__(self, other: "StreamState") -> bool:
        return self.rank < other.rank

    @property
    def room(self) -> int:
        """Cells it may fill in all; the last token of a reply is never evaluated, and one is held in reserve."""
        return self.prompt_tokens + self.request.max_tokens

    @property
    def made(self) -> int:
        """Tokens of the reply so far."""
        return len(self.tokens) - self.prompt_tokens

    def want(self) -> Want:
        """What it has to evaluate next. A resumed one reads its own text again like a prompt."""
        assert self.held is not None
        pending = len(self.tokens) - self.held.length
        return Want(pending=pending, rank=self.rank, prefilling=pending > 1 or not self.made)

    def place(self, held: HeldSequence) -> None:
        """It is live now, with `held` holding what the cache had of it."""
        self.held = held
        if not self._placed:
            self._placed = time.monotonic()
            self.cached_tokens = held.length

    def advance(self, context: object, index: int) -> Delta | Finished | Failed | None:
        """Take the next token from the logits at `index`. None when there is nothing to show yet.

        Failed when the reply's form lets nothing follow; it is over then, as after Finished.
        """
        try:
            token = self._sampler.choose(context, index)
        except FormFault as fault:
            return Failed(id=self.id, code="bad_input", reason=f"{fault}, after {self._written()!r}")
        self._first = self._first or time.monotonic()
        if self._vocabulary.ends(token):
            return self._finish("end", self._text.finish())
        self.tokens.append(token)
        text = self._text.feed(self._vocabulary.piece(token))
        if self._text.stopped is not None:
            return self._finish("stop", text)
        if self._sampler.complete:
            return self._finish("end", text + self._text.finish())
        if self.made >= self.request.max_tokens:
            return self._finish("length", text + self._text.finish())
        return Delta(id=self.id, text=text, tokens=self.made) if text else None

    def close(self) -> None:
        self._sampler.close()

    def _written(self) -> str:
        """The end of the reply so far."""
        pieces = [self._vocabulary.piece(token) for token in self.tokens[self.prompt_tokens :][-_SHOWN_TOKENS:]]
        return b"".join(pieces).decode("utf-8", "replace")[-_SHOWN_TOKENS:]

    def _finish(self, reason: Literal["end", "stop", "length"], text: str) -> Finished:
        now = time.monotonic()
        return Finished(
            id=self.id,
            text=text,
            reason=reason,
            stop=self._text.stopped or "",
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            tokens=self.made,
            seed=self.request.seed,
            queue_ms=(self._placed - self._arrived) * 1e3,
            prefill_ms=(self._first - self._placed) * 1e3,
            decode_ms=(now - self._first) * 1e3,
        )
