"""The turn after an approved command was run: Verify alone, with plan, answer and result as its work (decision 13).

It is a turn like any other, of the same session, in its log and its memory. What it asks of models is one stage; when
that fails the work directory goes back to what it was, and the person is told.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import structs

from council.depth import DepthChoice
from council.roles import ROLES, Role
from council.state_machine import Rulebook
from gaiad.base.clock import Clock
from gaiad.base.errors import NotFound
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.turn.cognition import Assembler
from gaiad.turn.council_turn import CouncilTurn, Event
from gaiad.turn.gathering import Gathered, Names
from gaiad.turn.recall import Labels, labels_of
from gaiad.turn.recorder import TurnRecorder
from gaiad.turn.services import TurnServices
from gaiad.turn.stage_packets import StagePackets
from gaiad.turn.turn_state import Executed, TurnState, command_line, result_text, risk_of
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import HistoryNote, RunningTurn, TurnRecord
from gaiad.wire.governance import Approval
from gaiad.wire.memory import SessionTurn
from prompts.packet import WorkItem
from prompts.work import work_room

_WHY = "a command that it proposed was approved and run"
_SHOWN_CHARACTERS = 3000
_RESULT_TOKENS = 1024


class Continuation:
    """One for the daemon; holds nothing between turns."""

    def __init__(
        self, assembler: Assembler, turn_store: TurnStore, services: TurnServices, ids: IdMaker, clock: Clock
    ) -> None:
        self._assembler = assembler
        self._turn_store = turn_store
        self._services = services
        self._ids = ids
        self._clock = clock

    async def events(
        self,
        executed: Executed,
        names: Names,
        turns: list[SessionTurn],
        proposed: SessionTurn | None,
        call: RequestContext,
    ) -> AsyncGenerator[Event, None]:
        """As TurnTaker.take's. `proposed` is the turn that proposed the command, as it is remembered: its plan and
        answer are given, so what is said of it is said of this turn too. Raises as TurnTaker.take.
        """
        labels = labels_of([*turns, *([] if proposed is None else [proposed])], call.guarded)
        yield "turn", {"session_id": names.session_id, "turn_id": names.turn_id}
        room = self._services.room
        running = RunningTurn(turn_id=names.turn_id, session_id=names.session_id, depth="", stage="", role="")
        room.begin(call.tenant, running)
        try:
            async with aclosing(self._verified(executed, names, turns, labels, call)) as events:
                async for event in events:
                    yield event
        finally:
            room.end(names.turn_id)

    async def _verified(
        self, executed: Executed, names: Names, turns: list[SessionTurn], labels: Labels, call: RequestContext
    ) -> AsyncGenerator[Event, None]:
        services, approval = self._services, executed.approval
        record = await self._proposed_in(approval, call)
        gathered = self._gathered(approval, record, names, turns, labels)
        rules = _verifying(services.rules)
        choice = DepthChoice(depth="full", why=_WHY)
        turn_state = TurnState(
            gathered, choice, rules, self._turn_store.now(), risk_of(approval.risk_level), services.kept
        )
        turn_state.executed = executed
        turn = CouncilTurn(
            services,
            self._packets(gathered, rules),
            self._turn_store,
            turn_state,
            TurnRecorder(services, self._turn_store, turn_state, call.tenant, may_execute=False),
            self._clock,
            call.until(self._clock.monotonic() + services.config.full_deadline_s),
            work=_work(approval, record),
            acted_by=_role(approval.proposed_by),
        )
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield event

    async def _proposed_in(self, approval: Approval, call: RequestContext) -> TurnRecord | None:
        """The turn that proposed the command; None when its log is gone."""
        try:
            return await self._services.turn_log.find(call.tenant, approval.turn_id)
        except NotFound:
            return None

    def _gathered(
        self, approval: Approval, record: TurnRecord | None, names: Names, turns: list[SessionTurn], labels: Labels
    ) -> Gathered:
        """Nothing is looked up: what counts is in the work. The persona is that turn's, as long as there is one."""
        registry = self._assembler.registry
        known = record is not None and record.persona in registry.personas
        persona = record.persona if known and record else registry.persona_in_force()
        message = f"I approve {command_line(approval)}. Verify what it did."
        return Gathered(
            request=ChatRequest(message=message, session_id=names.session_id, persona=persona),
            names=names,
            turns=turns,
            registry=registry,
            persona=persona,
            chosen_persona="",
            chosen_project="",
            note=HistoryNote(sought=False, why="it goes on after an approval"),
            needed=False,
            found=None,
            context=[],
            notes=[],
            may_execute=False,
            unasked=None,
            took_ms=0.0,
            labels=labels,
        )

    def _packets(self, gathered: Gathered, rules: Rulebook) -> StagePackets:
        stages = rules.stages.stages
        room = work_room([stages["refine"].max_tokens, stages["act"].max_tokens, _RESULT_TOKENS])
        return StagePackets(self._assembler, self._turn_store, gathered, rules.stages, room, self._ids, self._clock)


def _verifying(rules: Rulebook) -> Rulebook:
    """The rules of a turn that does nothing but verify."""
    return structs.replace(rules, stages=structs.replace(rules.stages, chains={"full": ("verify",)}))


def _work(approval: Approval, record: TurnRecord | None) -> list[WorkItem]:
    """Plan and answer of the turn that proposed it, and what the command did."""
    said = [] if record is None else record.blocks
    wanted = [block for block in said if block.get("marker") in ("PLAN", "RESPONSE")]
    work = [WorkItem(marker=block["marker"], text=block["text"], role=block["role"]) for block in wanted]
    return [*work, WorkItem(marker="EXECUTE", text=result_text(approval, _SHOWN_CHARACTERS), role="shell")]


def _role(name: str) -> Role | None:
    return next((role for role in ROLES if role == name), None)
