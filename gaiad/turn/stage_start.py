"""How a stage call begins: which packet goes to which model, in what form, and by when it must come back."""

from collections.abc import Sequence

from msgspec import structs

from council.course import Task
from council.roles import assign_stage
from council.stages import Form, stage_form
from gaiad.clock import Clock
from gaiad.errors import BadInput, GaiadError, Unavailable
from gaiad.generation import Sampling
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Call
from gaiad.turn.minutes import Minutes
from gaiad.turn.pacing import pace_of
from gaiad.turn.stage_call import Pace, StageCall, request_of
from gaiad.turn.stage_packets import Meta, StagePackets
from gaiad.turn.story import Story
from prompts.packet import WorkItem

_SHORTEST_REPLY = 16


class StageStart:
    """Of one turn; `call` ends with the turn's deadline."""

    def __init__(self, packets: StagePackets, story: Story, minutes: Minutes, clock: Clock, call: Call) -> None:
        self._packets = packets
        self._story = story
        self._minutes = minutes
        self._rules = story.rules
        self._chain = story.rules.stages.chains[story.choice.depth]
        self._clock = clock
        self._call = call

    def with_commands(self, task: Task) -> Task:
        """Who may ask for a command is told how; a repair is told what to repair."""
        entry = self._rules.stages.stages[task.stage]
        if not self._minutes.may_execute or task.task_instruction != entry.task_instruction:
            return task
        return structs.replace(task, task_instruction=entry.with_commands or task.task_instruction)

    async def open(self, task: Task, work: Sequence[WorkItem], began: float) -> StageCall:
        """The packet, and the model that will be asked. Raises as StagePackets.stage."""
        entry = self._rules.stages.stages[task.stage]
        reserve = 0 if task.stage == "act" else entry.max_tokens
        built, model = await self._packets.stage(task, work, self._meta(task), reserve, self._call)
        self._story.base = self._packets.newest
        limit = built.manifest.reserve_tokens
        if model.window:
            limit = min(limit, model.window - built.manifest.total_tokens)
        if limit < _SHORTEST_REPLY and task.stage != "act":
            raise Unavailable(f"{model.name}: its context leaves {limit} tokens to the stage {task.stage}", 60.0)
        form = self._form(task, model, max(limit, _SHORTEST_REPLY))
        asked = request_of(built, form, limit, self._sampling(task), self._story.request.seed)
        return StageCall(task, built, model, asked, began, self._clock)

    def is_the_messages(self, error: GaiadError, task: Task) -> bool:
        """Whether no packet can be made because of what was said, which is no role's fault."""
        acts = assign_stage(self._rules.roles, "act", self._minutes.seats())
        same = acts is not None and self._packets.window_of(acts.role) == self._packets.window_of(task.role)
        return isinstance(error, BadInput) and (task.stage == "act" or (same and not self._story.stages))

    def pace(self, stage: StageCall) -> Pace:
        """By when the first text and the last must be there."""
        now = self._clock.monotonic()
        return pace_of(stage.task.stage, self._chain, now, self._call.deadline or now)

    def _form(self, task: Task, model: PooledModel, max_tokens: int) -> Form:
        """Only a GGUF can be held to blocks; a remote model to a schema, and others are read as they write."""
        form = stage_form(task.stage, max_tokens, may_execute=self._minutes.may_execute)
        return form if model.kind == "gguf" else Form()

    def _meta(self, task: Task) -> Meta:
        """What GCP's meta header says of this call; nothing at all for the first one of an ordinary turn."""
        retries = sum(row.stage == task.stage for row in self._story.stages)
        risk = "high" if task.action == "high_risk" else self._story.risk
        return Meta(self._story.confidence, None if risk == "low" else risk, retries or None)

    def _sampling(self, task: Task) -> Sampling:
        own, wanted = self._rules.roles.roles[task.role].sampling, self._story.request.temperature
        return own if task.stage != "act" or wanted is None else structs.replace(own, temperature=wanted)
