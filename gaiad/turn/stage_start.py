"""How a stage call begins: which packet goes to which model, in what form, and by when it must come back."""

from collections.abc import Sequence

from msgspec import structs

from council.roles import assign_stage
from council.stages import Form, stage_form
from council.state_machine import StageTask
from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, GaiadError, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.cognition import Meta, StagePackets
from gaiad.turn.recorder import TurnRecorder
from gaiad.turn.stage_call import CallDeadlines, StageCall, pace_of, request_of
from gaiad.wire.generation import Sampling
from prompts.packet import WorkItem

_SHORTEST_REPLY, _SHORTEST_ANSWER = 16, 64


class StageStart:
    """Of one turn; `call` ends with the turn's deadline."""

    def __init__(self, packets: StagePackets, recorder: TurnRecorder, clock: Clock, call: RequestContext) -> None:
        self._packets = packets
        self._turn_state = turn_state = recorder.turn_state
        self._recorder = recorder
        self._rules = turn_state.rules
        self._chain = turn_state.rules.stages.chains[turn_state.choice.depth]
        self._clock = clock
        self._call = call

    def with_commands(self, task: StageTask) -> StageTask:
        """Who may ask for a command learns how; a repair keeps its own instruction."""
        entry = self._rules.stages.stages[task.stage]
        if not self._recorder.may_execute or task.task_instruction != entry.task_instruction:
            return task
        return structs.replace(task, task_instruction=entry.with_commands or task.task_instruction)

    async def open(self, task: StageTask, work: Sequence[WorkItem], began: float) -> StageCall:
        """The packet, and the model that will be asked. Raises as StagePackets.stage."""
        entry = self._rules.stages.stages[task.stage]
        reserve = 0 if task.stage == "act" else entry.max_tokens
        built, model = await self._packets.stage(task, work, self._meta(task), reserve, self._call)
        self._turn_state.base = self._packets.newest
        limit = built.manifest.reserve_tokens
        if model.window:
            limit = min(limit, model.window - built.manifest.total_tokens)
        if task.stage == "act":
            limit = self._in_time(model, built.manifest.total_tokens, limit)
        if limit < _SHORTEST_REPLY and task.stage != "act":
            raise Unavailable(f"{model.name}: its context leaves {limit} tokens to the stage {task.stage}", 60.0)
        form = self._form(task, model, max(limit, _SHORTEST_REPLY))
        asked = request_of(built, form, limit, self._sampling(task, model), self._seed(task))
        return StageCall(task, built, model, asked, began, self._clock)

    def _in_time(self, model: PooledModel, prompt_tokens: int, limit: int) -> int:
        """The reply's limit, shorter where the model is known to write less until the deadline."""
        now, rates = self._clock.monotonic(), self._recorder.services.rates
        left = (self._call.deadline or now) - now - 2 * (rates.first_word_s(model.name, prompt_tokens) or 0.0)
        fitting = rates.tokens_in(model.name, left)
        return limit if fitting is None else min(limit, max(fitting, _SHORTEST_ANSWER))

    def is_the_messages(self, error: GaiadError, task: StageTask) -> bool:
        """Whether no packet can be made because of what was said, which is not a role's fault."""
        acts = assign_stage(self._rules.roles, "act", self._recorder.seats())
        same = acts is not None and self._packets.window_of(acts.role) == self._packets.window_of(task.role)
        return isinstance(error, BadInput) and (task.stage == "act" or (same and not self._turn_state.stages))

    def pace(self, stage: StageCall) -> CallDeadlines:
        """By when the first text and the last must be there."""
        now, name, rates = self._clock.monotonic(), stage.model.name, self._recorder.services.rates
        return pace_of(
            stage.task.stage,
            self._chain,
            now,
            self._call.deadline or now,
            first_word_s=rates.first_word_s(name, stage.built.manifest.total_tokens) or 0.0,
            writing_s=rates.writing_s(name, stage.asked.max_tokens // 2) or 0.0,
            others=self._packets.others_than(stage.task.role, [seat.role for seat in self._recorder.seats()]),
        )

    def _form(self, task: StageTask, model: PooledModel, max_tokens: int) -> Form:
        """Only a GGUF can be held to blocks; a remote model to a schema, and others are read as they write."""
        form = stage_form(task.stage, max_tokens, may_execute=self._recorder.may_execute)
        return form if model.kind == "gguf" else Form()

    def _meta(self, task: StageTask) -> Meta:
        """What GCP's meta header says of this call; nothing at all for the first one of an ordinary turn."""
        retries = self._times(task)
        risk = "high" if task.action == "high_risk" else self._turn_state.risk
        return Meta(self._turn_state.confidence, None if risk == "low" else risk, retries or None)

    def _seed(self, task: StageTask) -> int | None:
        """The one asked for; another one each time the stage is done again."""
        seed = self._turn_state.request.seed
        return None if seed is None else (seed + self._times(task)) % 2**32

    def _times(self, task: StageTask) -> int:
        return sum(row.stage == task.stage for row in self._turn_state.stages)

    def _sampling(self, task: StageTask, model: PooledModel) -> Sampling:
        own, wanted = self._rules.roles.roles[task.role].sampled(model.sampling), self._turn_state.request.temperature
        return own if task.stage != "act" or wanted is None else structs.replace(own, temperature=wanted)
