"""One stage call: a packet goes to a role's model, its text comes back piece by piece, and what it cost is known."""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from council.observer import ObserverCheck
from council.roles import CouncilStage
from council.stages import Form
from council.state_machine import StageTask
from gaiad.base.clock import Clock, to_iso
from gaiad.base.config import model_label
from gaiad.base.errors import DeadlineExceeded, GaiadError
from gaiad.base.home import replace_file
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.turn_store import Sent, logged
from gaiad.wire.council import StageRecord
from gaiad.wire.generation import Generated, GenerateRequest, Sampling
from prompts.budget import Built
from prompts.fence import FENCE_OPENINGS

_log = get_logger("gaiad.turn")
LEFT = "the caller left before the end"
CUT = "the text was cut at its deadline"
_SILENT_END = 0.25  # of the time that a text took: a longer silence before its end is no slow writing
ENDED = "the text was ended by a rule"
STOPS = [*FENCE_OPENINGS, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>"]
"""Where plain text ends: what only prompts and templates write."""


class CallDeadlines(NamedTuple):
    """Monotonic seconds: by when the first text must be there, and by when the call ends."""

    first_by: float
    last_by: float


def request_of(built: Built, form: Form, max_tokens: int, sampling: Sampling, seed: int | None) -> GenerateRequest:
    """What a model is asked for a packet."""
    return GenerateRequest(
        messages=built.messages,
        stop=[] if form.contract or form.schema else STOPS,
        max_tokens=max_tokens,
        seed=seed,
        sampling=sampling,
        contract=form.contract,
        schema=form.schema,
    )


class StageCall:
    """`reply` is there once the text is whole; `text` is what came so far. `failure` says what cut it off."""

    def __init__(
        self, task: StageTask, built: Built, model: PooledModel, asked: GenerateRequest, began: float, clock: Clock
    ) -> None:
        self.task = task
        self.built = built
        self.model = model
        self.asked = asked
        self.reply: Generated | None = None
        self.failure = ""
        self.notes: list[str] = []
        self._call: RequestContext | None = None
        self._parts: list[str] = []
        self._tokens = 0
        self._first_at = self._last_at = 0.0
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

    @property
    def writing_ms(self) -> float:
        """From the first piece to the last, for one that was cut off."""
        return (self._last_at - self._first_at) * 1000

    @property
    def kept_writing(self) -> bool:
        """Whether it was cut off while text came, and not after a silence."""
        return self.failure == CUT and self._ended - self._last_at < (self._ended - self._first_at) * _SILENT_END

    def refuse_cut(self) -> None:
        """Nothing in it can be read: a role that was cut off was too slow, another does it. Raises DeadlineExceeded."""
        if self.failure == CUT:
            raise DeadlineExceeded(f"{self.task.role} wrote nothing readable before its deadline of {self.task.stage}")

    def cut(self) -> None:
        """End the text where it is, as its deadline would."""
        if self._call is not None:
            self._call.deadline = self._clock.monotonic()

    async def pieces(self, call: RequestContext, pace: CallDeadlines) -> AsyncGenerator[str, None]:
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

    async def _written(self, call: RequestContext, pace: CallDeadlines) -> AsyncGenerator[str, None]:
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
                        self._first_at = self._clock.monotonic()
                    self._last_at = self._clock.monotonic()
                    self._parts.append(piece.text)
                    self._tokens = piece.tokens
                    yield piece.text
        except DeadlineExceeded as error:
            now = self._clock.monotonic()
            if not self._parts or (call.deadline is not None and now > call.deadline):
                wrote = "did not end" if self._parts else "wrote nothing"
                raise DeadlineExceeded(
                    f"{model_label(self.model.name)} {wrote} in {now - self._called:.1f} s, its share of the turn's "
                    "time; council.deadline_s and council.full_deadline_s give more"
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


def unsent(task: StageTask, error: GaiadError) -> StageRecord:
    """A stage that no packet could be made for."""
    return StageRecord(
        stage=task.stage,
        role=task.role,
        packet_id="",
        tokens=0,
        cached_tokens=0,
        ms=0.0,
        verdict="lost",
        why=task.why,
        stands_in_for=task.stands_in_for or "",
        task_instruction=task.task_instruction,
        notes=[error.message],
    )


def observed(look: ObserverCheck) -> StageRecord:
    """One look of the observing model, as a stage of the turn."""
    said = look.said
    return StageRecord(
        stage="observe",
        role=look.role,
        packet_id="" if said is None else said.packet_id,
        tokens=look.tokens,
        cached_tokens=0 if said is None else said.cached_tokens,
        ms=round(look.ms, 3),
        verdict=look.outcome,
        why=f"it read along at {look.characters} characters",
        model="" if said is None else said.model,
        task_instruction="observer_window",
        prompt_tokens=0 if said is None else said.prompt_tokens,
        prompt_sha256="" if said is None else said.prompt_sha256,
        seed=0 if said is None else said.seed,
        fingerprint="" if said is None else said.fingerprint,
        queue_ms=0.0 if said is None else round(said.queue_ms, 3),
        prefill_ms=0.0 if said is None else round(said.prefill_ms, 3),
        decode_ms=0.0 if said is None else round(said.decode_ms, 3),
        notes=[look.why] if look.why else [],
    )


_WEIGHTS: dict[CouncilStage, float] = {"plan": 1.0, "refine": 1.0, "observe": 0.5, "act": 3.0, "verify": 1.0}
_SILENT_SHARE = 0.6
_THINKING_SHARE = 0.8
BEFORE_ANSWER: tuple[CouncilStage, ...] = ("plan", "refine")
_PATIENCE = 2.0
_LAST_WORDS_S = 1.0  # kept for ending the turn in order


def share_of(stage: CouncilStage, chain: Sequence[CouncilStage]) -> float:
    """How much of the time left is the stage's, 0 to 1."""
    coming = chain[chain.index(stage) :] if stage in chain else (stage,)
    return _WEIGHTS[stage] / sum(_WEIGHTS[one] for one in coming)


def pace_of(
    stage: CouncilStage,
    chain: Sequence[CouncilStage],
    now: float,
    deadline: float,
    *,
    first_word_s: float = 0.0,
    writing_s: float = 0.0,
    others: bool = True,
    answers_from: float = math.inf,
) -> CallDeadlines:
    """When the first word must be there, and when the stage ends. Times are monotonic seconds.

    `first_word_s` and `writing_s` are what the model takes as far as is known: a stage has twice that before it is
    given up, within the deadline, and a stage of thinking leaves the later ones theirs: those before the answer end
    at `answers_from`. Without `others` who could stand in, the first word is waited for to the stage's end.
    """
    coming = chain[chain.index(stage) :] if stage in chain else (stage,)
    left = max(0.0, deadline - now - min(_LAST_WORDS_S, (deadline - now) / 10))
    share = left * share_of(stage, chain)
    most = left if stage == "act" else left * _THINKING_SHARE
    most = min(most, max(0.0, answers_from - now)) if stage in BEFORE_ANSWER else most
    longest = most if len(coming) == 1 else min(most, share * 1.5)
    silent = max(longest * _SILENT_SHARE, _PATIENCE * first_word_s)
    longest = min(most, max(longest, _PATIENCE * (first_word_s + writing_s)))
    first = min(longest, silent) if others else longest
    return CallDeadlines(first_by=now + first, last_by=now + longest)


_NEW_SHARE = 0.3
_FEWEST_TOKENS = 8


_Rates = dict[str, Annotated[float, msgspec.Meta(gt=0)]]


class ModelRates(msgspec.Struct):
    """Tokens a second by model; nothing is said of one that has not replied yet."""

    reading: _Rates = msgspec.field(default_factory=dict)
    writing: _Rates = msgspec.field(default_factory=dict)

    def observe(self, model: str, reply: Generated) -> None:
        """One more reply. What is too short to tell is passed over."""
        read = reply.prompt_tokens - reply.cached_tokens
        _mix(self.reading, model, read, reply.prefill_ms)
        self.observe_part(model, reply.tokens, reply.decode_ms)

    def observe_part(self, model: str, tokens: int, decode_ms: float) -> None:
        """What came of a reply that was cut off: a model whose replies never end in time would stay unknown."""
        _mix(self.writing, model, tokens - 1, decode_ms)

    def first_word_s(self, model: str, prompt_tokens: int) -> float | None:
        """Seconds to the first word of a reply to a prompt that was not read before."""
        rate = self.reading.get(model)
        return None if rate is None else prompt_tokens / rate

    def writing_s(self, model: str, tokens: int) -> float | None:
        """Seconds to write so many tokens."""
        rate = self.writing.get(model)
        return None if rate is None else tokens / rate

    def tokens_in(self, model: str, seconds: float) -> int | None:
        """How many tokens it writes in so many seconds."""
        rate = self.writing.get(model)
        return None if rate is None else int(max(0.0, seconds) * rate)


def _mix(rates: dict[str, float], model: str, tokens: int, took_ms: float) -> None:
    if tokens < _FEWEST_TOKENS or took_ms <= 0:
        return
    now = tokens * 1000 / took_ms
    before = rates.get(model, now)
    rates[model] = before + (now - before) * _NEW_SHARE


def read_rates(path: Path) -> ModelRates:
    """What an earlier daemon measured; nothing where the file is not there or cannot be read, which is logged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModelRates)
    except FileNotFoundError:
        return ModelRates()
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("model_rates_not_read", file=str(path), error=str(error))
        return ModelRates()


def write_rates(path: Path, rates: ModelRates) -> None:
    """Keep them for the next start; a failure is logged, for they are measured again."""
    try:
        replace_file(path, msgspec.json.encode(rates))
    except OSError as error:
        _log.warning("model_rates_not_written", file=str(path), error=str(error))
