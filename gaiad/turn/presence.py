"""Who can do a stage of a turn, which is more than who can vote: what sleeps or loads is woken by being asked."""

from council.quorum import Seat
from council.room import Room
from gaiad.council_schemas import RoleState

_COMING = ("sleeping", "starting")


def present(room: Room) -> list[Seat]:
    """The seats for assigning stages. A role that has fallen silent is not there, whatever its worker says."""
    rows = {row.role: row for row in room.role_states()}
    return [
        Seat(role=seat.role, active=seat.active or _comes(room, rows[seat.role]), can_vote=seat.can_vote)
        for seat in room.seats()
    ]


def _comes(room: Room, row: RoleState) -> bool:
    """Whether it will be there when it is asked; a model that is ready has perhaps not been felt yet."""
    state = room.model_state(row.role)
    return row.state == "sleeping" or state in _COMING or (not row.last_heartbeat and state == "ready")
