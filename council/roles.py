"""The three roles (GCP 2, 8): which stage each does, who stands in for a silent one, who reviews a command.

Roles are distinct even on one model. Pure: who is active comes as quorum's seats, models are known elsewhere. Planning,
refining, observing, verifying and reviewing need a model that writes; acting does not, for quoting is an answer too.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, get_args

import msgspec

from constants.load import load
from council.quorum import Seat
from gaiad.base.errors import BadInput, ConfigError
from gaiad.wire.generation import Sampling

Role = Literal["prime", "lite", "codemind"]
CouncilStage = Literal["plan", "refine", "observe", "act", "verify"]
ROLES: tuple[Role, ...] = get_args(Role)
STAGES: tuple[CouncilStage, ...] = get_args(CouncilStage)
_NEEDS_NO_WRITER = "act"


class RoleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One role: its name for people, its stages, whether it reviews every EXECUTE, and what its replies' sampling has
    otherwise than its model recommends.
    """

    title: Annotated[str, msgspec.Meta(min_length=1)]
    stages: tuple[CouncilStage, ...]
    reviews_execute: bool = False
    sampling: dict[str, float] = {}

    def sampled(self, recommended: Sampling) -> Sampling:
        """The model's own sampling as this role has it."""
        return msgspec.structs.replace(recommended, **self.sampling)


class RoleTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/council_roles.toml. `stand_ins` are asked in their order; `duties` name a stage's doer in envelopes."""

    roles: dict[Role, RoleEntry]
    stand_ins: dict[CouncilStage, tuple[Role, ...]]
    duties: dict[CouncilStage, str]


class Assigned(msgspec.Struct, frozen=True, kw_only=True):
    """Who does a stage now. `stands_in_for` is the role that should and is silent, None when it does it itself."""

    stage: CouncilStage
    role: Role
    duty: str
    stands_in_for: Role | None = None


def role_table() -> RoleTable:
    """The shipped roles."""
    return load("council_roles.toml", RoleTable)


def with_stages(table: RoleTable, stages: Mapping[Role, Sequence[CouncilStage]]) -> RoleTable:
    """The table with a user's stages for some roles. Raises ConfigError when a stage is nobody's or two roles'."""
    roles = {
        role: msgspec.structs.replace(entry, stages=tuple(stages.get(role, entry.stages)))
        for role, entry in table.roles.items()
    }
    made = msgspec.structs.replace(table, roles=roles)
    check_roles(made)
    return made


def check_roles(table: RoleTable) -> None:
    """Raises ConfigError unless each stage has one role, stand-ins and a duty, and one role reviews commands."""
    for stage in STAGES:
        owners = [role for role, entry in table.roles.items() if stage in entry.stages]
        if len(owners) != 1:
            found = " and ".join(owners) or "no role"
            raise ConfigError(f"the stage {stage!r} belongs to {found}; give it to one role")
        if missing := set(table.roles) - {*owners, *table.stand_ins.get(stage, ())}:
            raise ConfigError(f"stand_ins.{stage}: {', '.join(sorted(missing))} is missing; name every role")
        if stage not in table.duties:
            raise ConfigError(f"duties.{stage} is missing; say what who does it is called")
    reviewers = [role for role, entry in table.roles.items() if entry.reviews_execute]
    if len(reviewers) != 1:
        found = " and ".join(reviewers) or "nobody"
        raise ConfigError(f"EXECUTE is reviewed by {found}; set reviews_execute for one role")


def voters(seats: Sequence[Seat]) -> tuple[str, ...]:
    """The roles whose ballots count now (decision 10)."""
    return tuple(seat.role for seat in seats if seat.active and seat.can_vote)


def assign_stage(
    table: RoleTable, stage: CouncilStage, seats: Sequence[Seat], actor: str = "", lost: Sequence[str] = ()
) -> Assigned | None:
    """Who does a stage now, None when nobody can. Roles in `lost` failed in this very turn and are not asked again.

    Who acted (`actor`) verifies its own work only when it is alone. Raises BadInput for a seat of no known role.
    """
    able = _able(stage, seats)
    owner = next(role for role, entry in table.roles.items() if stage in entry.stages)
    order = [role for role in dict.fromkeys((owner, *table.stand_ins[stage])) if role in able and role not in lost]
    if stage == "verify":
        order.sort(key=lambda role: role == actor)
    if not order:
        return None
    return Assigned(
        stage=stage, role=order[0], duty=table.duties[stage], stands_in_for=None if order[0] == owner else owner
    )


def assign_reviewer(table: RoleTable, seats: Sequence[Seat], proposer: str) -> Role | None:
    """Who reviews a command that `proposer` wants: never the proposer. None means EXECUTE is refused."""
    able = _able("review", seats)
    owner = next(role for role, entry in table.roles.items() if entry.reviews_execute)
    order = [owner, *table.stand_ins["verify"]]
    return next((role for role in order if role in able and role != proposer), None)


def _able(duty: str, seats: Sequence[Seat]) -> set[str]:
    for seat in seats:
        if seat.role not in ROLES:
            raise BadInput(f"seat of {seat.role!r}: no such role; there are {', '.join(ROLES)}")
    return {seat.role for seat in seats if seat.active and (duty == _NEEDS_NO_WRITER or seat.can(duty))}
