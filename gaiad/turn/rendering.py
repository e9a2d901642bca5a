"""Shows the first packet of a turn without taking it: the same way to the same packet, but that no model is asked."""

from collections.abc import Sequence

from msgspec import structs

from council.depth import DepthChoice
from council.state_machine import PRIME, Rulebook, StageTask, TurnStateMachine
from gaiad.base.clock import Clock
from gaiad.base.errors import Unavailable
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.turn.cognition import Assembler, Prepared, rendering_of
from gaiad.turn.council_turn import MEMO
from gaiad.turn.gathering import Gathered, Names
from gaiad.turn.services import TurnServices, acting_role, choose, present
from gaiad.turn.stage_packets import Meta, StagePackets, room_for_work
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest, Rendering
from gaiad.wire.memory import SessionTurn
from prompts.packet import WorkItem


class Renderer:
    """One for the daemon; holds nothing between requests."""

    def __init__(
        self, assembler: Assembler, turn_store: TurnStore, services: TurnServices, ids: IdMaker, clock: Clock
    ) -> None:
        self._assembler = assembler
        self._turn_store = turn_store
        self._services = services
        self._ids = ids
        self._clock = clock

    async def render(
        self, request: ChatRequest, names: Names, turns: list[SessionTurn], call: RequestContext
    ) -> Rendering:
        """What a turn's first stage would send at the depth it would have. Raises as Assembler.gather and pack."""
        services = self._services
        await services.room.settled(call)
        seats = present(services.room)
        choice, _ = choose(services, request, seats)
        rules = services.rules
        if request.role != PRIME:
            rules = structs.replace(rules, roles=acting_role(rules.roles, request.role))
        gathered = await self._assembler.gather(request, names, turns, call, lambda _name, _data: None, dry_run=True)
        first = TurnStateMachine(choice.depth, rules).begin(seats)
        if not isinstance(first, StageTask):
            raise Unavailable(f"no turn can be taken now: {first.why}", 5.0)
        prepared = await self._first(first, choice, rules, gathered, call)
        return structs.replace(
            rendering_of(prepared), depth=choice.depth, depth_why=choice.why, stage=first.stage, role=first.role
        )

    async def _first(
        self, task: StageTask, choice: DepthChoice, rules: Rulebook, gathered: Gathered, call: RequestContext
    ) -> Prepared:
        full = choice.depth == "full"
        room = room_for_work(rules.stages, self._assembler.reserve_tokens) if full else 0
        packets = StagePackets(self._assembler, self._turn_store, gathered, rules.stages, room, self._ids, self._clock)
        reserve = 0 if task.stage == "act" else rules.stages.stages[task.stage].max_tokens
        work = await self._memos(gathered, call) if full else []
        built, _ = await packets.stage(task, work, Meta(), reserve, call)
        prepared, _ = await packets.base(task, call)
        return prepared._replace(built=built)

    async def _memos(self, gathered: Gathered, call: RequestContext) -> Sequence[WorkItem]:
        memos = await self._assembler.memos(gathered, call)
        return [WorkItem(marker=MEMO, text="\n".join(memos), role="archive")] if memos else []
