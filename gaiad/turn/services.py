"""Whom a turn works with: the room of the council, its rules, and where what happens is written down."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec import structs

from council.depth import (
    DepthChoice,
    DepthTable,
    RequestSignals,
    Situation,
    choose_depth,
    depth_table,
    length_of,
    presence,
    what_is_asked,
)
from council.execute_review import ExecuteReview
from council.limits import council_limits
from council.observer_rules import ObserverTable, observer_table
from council.ports import Speaker
from council.quorum import Seat, council_rules
from council.roles import ROLES, STAGES, CouncilStage, Role, RoleTable, role_table, voters, with_stages
from council.room import Room
from council.stage_steps import step_table
from council.stages import stage_table
from council.state_machine import Rulebook
from gaiad.base.config import CouncilConfig
from gaiad.base.errors import ConfigError
from gaiad.base.ports import Approvals, Audit
from gaiad.ledger.turn_log import TurnLog
from gaiad.turn.stage_call import ModelRates
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import RoleState
from gaiad.wire.generation import SAMPLING_RANGES, out_of_range
from router.routing import kept, routing_table

_WHOLE = ("top_k", "repeat_window")
AddSeed = Callable[[str, str, str], Coroutine[Any, Any, Any]]
"""Tenant, text, turn id."""
Reflect = Callable[[CouncilStage, str, float | None], Coroutine[Any, Any, None]]
"""Stage, outcome, confidence."""


class TurnServices:
    """The council as a turn sees it. `person()` is held for as long as a person waits: the initiative keeps still.

    `kept` is how the memory keeps the blocks of a marker.
    """

    def __init__(
        self,
        *,
        room: Room,
        turn_log: TurnLog,
        audit: Audit,
        speaker: Speaker,
        review_with: Callable[[RoleTable], ExecuteReview],
        person: Callable[[], AbstractContextManager[None]],
        add_seed: AddSeed,
        reflect: Reflect,
        config: CouncilConfig,
        approvals: Approvals,
        rates: ModelRates,
    ) -> None:
        self.room = room
        self.approvals = approvals
        self.turn_log = turn_log
        self.audit = audit
        self.speaker = speaker
        self.person = person
        self._review_with = review_with
        self.add_seed = add_seed
        self.reflect = reflect
        self.depths: DepthTable = depth_table()
        self.observed: ObserverTable = observer_table()
        self.rates = rates
        self.kept: Mapping[str, str] = kept(routing_table())
        self.use_config(config)

    def use_config(self, config: CouncilConfig) -> None:
        """Other stages, samplings and times. Raises ConfigError when they do not fit, and keeps the old ones."""
        self.rules = rulebook(config)
        self.review = self._review_with(self.rules.roles)
        self.config = config


def rulebook(config: CouncilConfig) -> Rulebook:
    """The shipped rules with the user's stages and samplings. Raises ConfigError naming the setting."""
    return Rulebook(
        roles=_sampled(_staged(role_table(), config.stages), config.sampling),
        stages=stage_table(),
        steps=step_table(),
        limits=council_limits(),
        quorum=council_rules(),
    )


def acting_role(roles: RoleTable, asked: str) -> RoleTable:
    """The table for a turn that a person asked a role for by name: that one acts, and nobody stands in for it."""
    stages: dict[Role, Sequence[CouncilStage]] = {}
    for role, entry in roles.roles.items():
        own = [stage for stage in entry.stages if stage != "act"]
        stages[role] = [*own, "act"] if role == asked else own
    made = with_stages(roles, stages)
    return msgspec.structs.replace(made, stand_ins={**made.stand_ins, "act": ()})


def _staged(table: RoleTable, stages: Mapping[str, Sequence[str]]) -> RoleTable:
    wanted: dict[Role, tuple[CouncilStage, ...]] = {}
    for name, given in stages.items():
        role = _role(name, "council.stages")
        if unknown := [stage for stage in given if stage not in STAGES]:
            raise ConfigError(f"council.stages.{role}: {unknown[0]!r} is not a stage; stages are {', '.join(STAGES)}")
        if len(set(given)) < len(given):
            raise ConfigError(f"council.stages.{role} = {list(given)!r}: name each stage once")
        wanted[role] = msgspec.convert(list(given), tuple[CouncilStage, ...])
    try:
        return with_stages(table, wanted)
    except ConfigError as error:
        raise ConfigError(f"council.stages, with what it leaves as shipped: {error.message}") from error


def _sampled(table: RoleTable, sampling: Mapping[str, Mapping[str, float]]) -> RoleTable:
    roles = dict(table.roles)
    for name, values in sampling.items():
        role = _role(name, "council.sampling")
        given = {key: _sampling_value(f"council.sampling.{role}", key, value) for key, value in values.items()}
        roles[role] = msgspec.structs.replace(roles[role], sampling={**roles[role].sampling, **given})
    return msgspec.structs.replace(table, roles=roles)


def _role(name: str, setting: str) -> Role:
    for role in ROLES:
        if role == name:
            return role
    raise ConfigError(f"{setting}: there is no role {name!r}; roles are {', '.join(ROLES)}")


def _sampling_value(setting: str, key: str, value: float) -> float:
    """Whole where the key counts something. Raises ConfigError."""
    if key not in SAMPLING_RANGES:
        raise ConfigError(f"{setting}: there is no {key!r}; it may set {', '.join(SAMPLING_RANGES)}")
    if problem := out_of_range(key, value):
        raise ConfigError(f"{setting}: {problem}")
    if key not in _WHOLE:
        return value
    if value != int(value):
        raise ConfigError(f"{setting}: {key} is {value:g}; give a whole number")
    return int(value)


def choose(services: TurnServices, request: ChatRequest, seats: Sequence[Seat]) -> tuple[DepthChoice, RequestSignals]:
    """The depth, why in words, and what the message asks for."""
    asked = what_is_asked(request.message)
    able = len(voters(seats))
    situation = Situation(
        setting=request.depth or services.config.depth,
        quorum=presence(able, services.rules.quorum.quorum_roles),
        risk=asked.risk,
        length=length_of(services.depths, request.message),
        action=bool(asked.action),
    )
    return choose_depth(services.depths, situation), asked


def may_execute(
    services: TurnServices, choice: DepthChoice, asked: RequestSignals, seats: Sequence[Seat], *, granted: bool
) -> bool:
    """Whether Act may write EXECUTE: something is to be done, the persona has the grant, and there is a quorum."""
    whole = len(voters(seats)) >= services.rules.quorum.quorum_roles
    return granted and bool(asked.action) and whole and choice.depth == "full"


_COMING = ("sleeping", "starting")


def present(room: Room) -> list[Seat]:
    """The seats for assigning stages. A role that has fallen silent is not there, whatever its worker says."""
    rows = {row.role: row for row in room.role_states()}
    return [structs.replace(seat, active=seat.active or _comes(room, rows[seat.role])) for seat in room.seats()]


def _comes(room: Room, row: RoleState) -> bool:
    """Whether it will be there when it is asked; a model that is ready has perhaps not been felt yet."""
    state = room.model_state(row.role)
    return row.state == "sleeping" or state in _COMING or (not row.last_heartbeat and state == "ready")
