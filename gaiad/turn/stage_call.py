"""One stage call: a packet goes to a role's model, its text comes back piece by piece, and what it cost is known."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from council.course import Task
from council.stages import Form
from gaiad.clock import Clock, to_iso
from gaiad.council_schemas import StageRecord
from gaiad.errors import DeadlineExceeded, GaiadError
from gaiad.generation import Generated, GenerateRequest, Sampling
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Call
from gaiad.turn.remembering import Sent, logged
from prompts.request import Built

LEFT = "the caller left before the end"
CUT = "the text was cut at its deadline"


class Pace(NamedTuple):
    """Monotonic seconds: by when the first text must be there, and by when the call ends."""

    first_by: float
    last_by: float


def request_of(built: Built, form: Form, max_tokens: int, sampling: Sampling, seed: int | None) -> GenerateRequest:
    """What a model is asked for a packet."""
    return GenerateRequest(
        messages=built.messages,
        max_tokens=max_tokens,
        seed=seed,
        sampling=sampling,
        contract=form.contract,
        schema=form.schema,
    )


class StageCall:
    """`reply` is there once the text is whole; `text` is what came so far. `failure` says what cut it off."""

    def __init__(
        self, task: Task, built: Built, model: PooledModel, asked: GenerateRequest, began: float, clock: Clock
    ) -> None:
        self.task = task
        self.built = built
        self.model = model
        self.asked = asked
        self.reply: Generated | None = None
        self.failure = ""
        self.notes: list[str] = []
        self._call: Call | None = None
        self._parts: list[str] = []
        self._tokens = 0
        self._clock = clock
        self._began = began
        self._called = clock.monotonic()
        self._ended = 0.0
        self._started_at = to_iso(clock.now())

    @property
    def text(self) -> str:
        return self.reply.text if self.reply is not None else "".join(self._parts)

    @property
    def tokens(self) -> int:
        """Written so far."""
        return self.reply.tokens if self.reply is not None else self._tokens

    def cut(self) -> None:
        """End the text where it is, as its deadline would."""
        if self._call is not None:
            self._call.deadline = self._clock.monotonic()

    async def pieces(self, call: Call, pace: Pace) -> AsyncGenerator[str, None]:
        """The text as it comes, until `pace.last_by`; what is there then is what the stage wrote.

        Raises DeadlineExceeded when nothing came by `pace.first_by`, else as Model.generate.
        """
        try:
            async with aclosing(self._written(call, pace)) as pieces:
                async for piece in pieces:
                    yield piece
        except GaiadError as error:
            self.failure = error.message
            raise
        finally:
            self._ended = self._clock.monotonic()

    async def _written(self, call: Call, pace: Pace) -> AsyncGenerator[str, None]:
        """The first piece is waited for under one deadline, the rest under the other: two calls of one cancel flag."""
        first = self._call = call.until(pace.first_by)
        try:
            async with aclosing(self.model.generate(self.asked, first)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Generated):
                        self.reply = piece
                        return
                    if not self._parts:
                        first.deadline = call.until(pace.last_by).deadline
                    self._parts.append(piece.text)
                    self._tokens = piece.tokens
                    yield piece.text
        except DeadlineExceeded as error:
            now = self._clock.monotonic()
            if not self._parts or (call.deadline is not None and now > call.deadline):
                wrote = "did not end" if self._parts else "wrote nothing"
                raise DeadlineExceeded(
                    f"{self.model.name} {wrote} in {now - self._called:.1f} s, its share of the turn's time; "
                    "council.deadline_s and council.full_deadline_s give more"
                ) from error
            self.failure = CUT

    def sent(self) -> Sent:
        """What the cognition log keeps of it."""
        return Sent(
            packet=self.built.packet,
            manifest=self.built.manifest,
            request=logged(self.asked),
            reply={} if self.reply is None else msgspec.to_builtins(self.reply),
            failure=self.failure or ("" if self.reply is not None else LEFT),
        )

    def record(self, verdict: str, confidence: float | None = None) -> StageRecord:
        """The stage as the turn log has it."""
        reply, manifest = self.reply, self.built.manifest
        ended = self._ended or self._clock.monotonic()
        times = [0.0] * 3 if reply is None else [reply.queue_ms, reply.prefill_ms, reply.decode_ms]
        total = (self._clock.monotonic() - self._began) * 1000
        return StageRecord(
            stage=self.task.stage,
            role=self.task.role,
            packet_id=self.built.packet.full_id,
            tokens=self.tokens,
            cached_tokens=0 if reply is None else reply.cached_tokens,
            ms=round(total, 3),
            verdict=verdict,
            why=self.task.why,
            model=self.model.name,
            stands_in_for=self.task.stands_in_for or "",
            task_instruction=self.task.task_instruction,
            prompt_tokens=manifest.total_tokens if reply is None else reply.prompt_tokens or manifest.total_tokens,
            prompt_sha256=manifest.prompt_sha256,
            seed=0 if reply is None else reply.seed,
            fingerprint=self.model.fingerprint,
            started_at=self._started_at,
            queue_ms=round(times[0], 3),
            prefill_ms=round(times[1], 3),
            decode_ms=round(times[2], 3),
            overhead_ms=round(max(0.0, total - (ended - self._called) * 1000), 3),
            confidence=confidence,
            notes=[*self.notes, *([self.failure] if self.failure else [])],
        )
