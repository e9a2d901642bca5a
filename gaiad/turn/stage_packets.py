"""The packets of one turn: a base for each model that takes part, and from it a packet for every stage."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from council.stages import StageTable
from council.state_machine import StageTask
from gaiad.base.clock import Clock, to_iso
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.models.pool.pooled import PooledModel
from gaiad.research.familiar import MOST_TOKENS
from gaiad.turn.cognition import Assembler, Prepared, directions
from gaiad.turn.gathering import Gathered
from gaiad.turn.turn_store import TurnStore
from prompts.budget import Built
from prompts.packet import RiskLevel, WorkItem
from prompts.stage_packet import retarget
from prompts.work import work_room


def room_for_work(stages: StageTable, reserve_tokens: int) -> int:
    """Tokens of a packet for the memos, the plan and the answer that stages read of each other."""
    written = (min(reserve_tokens, stages.stages[stage].max_tokens) for stage in ("refine", "act"))
    return work_room([MOST_TOKENS, *written])


class Meta(NamedTuple):
    """What is in the meta header of a stage's packet (GCP 4.1.1)."""

    confidence: float | None = None
    risk_level: RiskLevel | None = None
    retry_count: int | None = None


class StagePackets:
    """Gathered once, packed once a model. `work_tokens` is the room kept for what the stages write for each other."""

    def __init__(
        self,
        assembler: Assembler,
        turn_store: TurnStore,
        gathered: Gathered,
        stages: StageTable,
        work_tokens: int,
        ids: IdMaker,
        clock: Clock,
    ) -> None:
        self._assembler = assembler
        self._turn_store = turn_store
        self._gathered = gathered
        self._stages = stages
        self._work_tokens = work_tokens
        self._ids = ids
        self._clock = clock
        self._bases: dict[str, Prepared] = {}
        self._last = ""
        self.newest: Prepared | None = None

    async def base(self, task: StageTask, call: RequestContext) -> tuple[Prepared, bool]:
        """The packet everything of this turn with the role's model is made from, and whether it is new.

        Raises BadInput, NotFound, TokenBudgetError, Unavailable.
        """
        model = self._assembler.model_of(task.role)
        if model.name in self._bases:
            return self._bases[model.name], False
        names = self._gathered.names
        made = await self._assembler.pack(
            self._gathered,
            task.role,
            names.full_id if not self._bases else self._ids.make("cog"),
            await self._turn_store.last_packet(names.session_id, call, model.fingerprint),
            call,
            instruction=task.task_instruction,
            work_tokens=self._work_tokens,
        )
        self._bases[model.name] = made
        return made, True

    def window_of(self, role: str) -> int:
        """Tokens that the role's model may have in its context, 0 when nobody knows. Raises NotFound."""
        return self._assembler.model_of(role).window

    def others_than(self, role: str, roles: Sequence[str]) -> bool:
        """Whether another of the roles is served by another model."""
        own = self._assembler.model_of(role).name
        return any(self._assembler.model_of(other).name != own for other in roles)

    async def stage(
        self, task: StageTask, work: Sequence[WorkItem], meta: Meta, reserve_tokens: int, call: RequestContext
    ) -> tuple[Built, PooledModel]:
        """The packet for one stage call, `reserve_tokens` 0 as in any packet of the model. Raises as `base`."""
        prepared, new = await self.base(task, call)
        self.newest = prepared
        as_packed = new and not work and meta == Meta()
        reserve = reserve_tokens or prepared.built.manifest.reserve_tokens
        if as_packed:
            built = _with_reserve(prepared.built, reserve)
        else:
            built = await self._retargeted(prepared, task, work, meta, reserve, call)
        self._last = built.packet.full_id
        return built, prepared.model

    async def _retargeted(
        self,
        prepared: Prepared,
        task: StageTask,
        work: Sequence[WorkItem],
        meta: Meta,
        reserve_tokens: int,
        call: RequestContext,
    ) -> Built:
        said = directions(self._gathered.registry, task.role, task.task_instruction, alone=not work)
        return await retarget(
            prepared.built,
            full_id=self._ids.make("cog"),
            role=task.role,
            role_text=said.role_text,
            task_instruction_key=task.task_instruction,
            task_instruction=said.task_instruction,
            work=list(work),
            inputs=self._inputs(task),
            reserve_tokens=reserve_tokens,
            timestamp=to_iso(self._clock.now()),
            parent_id=self._last or None,
            confidence=meta.confidence,
            risk_level=meta.risk_level,
            retry_count=meta.retry_count,
            tokenizer=prepared.model.tokenizer,
            compressor=self._assembler.compressor(self._gathered.names, self._gathered.unasked),
            call=call,
            counter=self._assembler.counter,
        )

    def _inputs(self, task: StageTask) -> list[str]:
        """What the stage reads of the others' work; who repairs an interrupted answer reads that answer too."""
        entry = self._stages.stages[task.stage]
        repairs = task.task_instruction == entry.after_interrupt
        return [*entry.inputs, *(["response"] if repairs else [])]


def _with_reserve(built: Built, reserve_tokens: int) -> Built:
    """The same packet for a reply of another length: the first stage writes as much as its contract lets it."""
    return msgspec.structs.replace(
        built, manifest=msgspec.structs.replace(built.manifest, reserve_tokens=reserve_tokens)
    )
