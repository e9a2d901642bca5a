"""The client's part for the council: who is there, what it said, its turns and its thoughts for later."""

from collections.abc import Iterator
from typing import Any

from gaiad.connection import Connection, ServerEvent
from gaiad.council_schemas import CouncilStatus, SeedRecord, TurnRecord


class CouncilClient:
    """`Client.council`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self, tenant: str) -> CouncilStatus:
        """Who is there, who can vote, what is voted on and what waits."""
        return self._connection.call("POST", "/council/status", CouncilStatus, {"tenant": tenant})

    def log(self, tenant: str, after: str, limit: int, *, heartbeats: bool) -> list[dict[str, Any]]:
        """Envelopes of GCP 8.1, oldest first: the first `limit` after the message `after`, without it the last."""
        body = {"tenant": tenant, "after": after, "limit": limit, "heartbeats": heartbeats}
        return self._connection.call("POST", "/council/log", dict[str, list[dict[str, Any]]], body)["messages"]

    def follow(self, tenant: str, after: str, limit: int, *, heartbeats: bool) -> Iterator[ServerEvent]:
        """What is stored, then what is said: events `message` with an envelope; `following` stands between the two.

        An event's id is where to go on after it.
        """
        body = {"tenant": tenant, "after": after, "limit": limit, "heartbeats": heartbeats}
        return self._connection.stream("POST", "/council/log", body)

    def seeds(self, tenant: str, limit: int, state: str | None = None) -> list[SeedRecord]:
        """Thoughts for later, newest first; only those in one state when it is given."""
        body = {"tenant": tenant, "limit": limit, "state": state}
        return self._connection.call("POST", "/council/seeds", dict[str, list[SeedRecord]], body)["seeds"]

    def turn(self, turn: str, tenant: str) -> TurnRecord:
        """A turn by its id or the eight digits shown."""
        return self._connection.call("POST", "/turns/show", TurnRecord, {"turn": turn, "tenant": tenant})

    def turns(self, tenant: str, limit: int, session_id: str = "") -> list[TurnRecord]:
        """The last ones, newest first."""
        body = {"tenant": tenant, "limit": limit, "session_id": session_id}
        return self._connection.call("POST", "/turns/list", dict[str, list[TurnRecord]], body)["turns"]
