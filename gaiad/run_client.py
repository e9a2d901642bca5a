"""The client's part for research runs: begun, followed, broken off, read again (`/research/...`)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from gaiad.connection import Connection, ServerEvent, query_of
from gaiad.schemas import ResearchRequest

if TYPE_CHECKING:
    from gaiad.run_schemas import ResearchRun, RunRow, SourceText


class RunClient:
    """`Client.runs`; the structs of a run take long to import, so only who reads one does."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def start(self, request: ResearchRequest) -> str:
        """Research that goes on by itself, also over a restart of the daemon; its id."""
        return str(self._connection.call("POST", "/research/start", dict[str, str], request)["research_id"])

    def follow(self, research_id: str, tenant: str, after: int = 0) -> Iterator[ServerEvent]:
        """The events of a run above number `after`, until its last: `result` or `error`."""
        path = f"/research/{quote(research_id, safe='')}/events{query_of(tenant=tenant, after=str(after))}"
        return self._connection.stream("GET", path, None)

    def cancel(self, research_id: str, tenant: str) -> bool:
        """Break a started run off; False when it is at its end. Raises NotFound."""
        path = f"/research/{quote(research_id, safe='')}/cancel"
        return bool(self._connection.call("POST", path, dict[str, object], {"tenant": tenant})["cancelled"])

    def forget(self, research_id: str, tenant: str) -> None:
        """Take a kept run out for good. Raises NotFound, Conflict while it is under way."""
        self._connection.call(
            "POST", f"/research/{quote(research_id, safe='')}/forget", dict[str, object], {"tenant": tenant}
        )

    def show(self, research_id: str, tenant: str) -> "ResearchRun":
        """A kept run with its answer and payload. Raises NotFound."""
        from gaiad.run_schemas import ResearchRun

        path = f"/research/{quote(research_id, safe='')}{query_of(tenant=tenant)}"
        return self._connection.call("GET", path, ResearchRun)

    def newest(self, tenant: str, limit: int, *, to_review: bool = False) -> "list[RunRow]":
        """The last ones, newest first; `to_review` those that are PARTIAL or answered with low confidence."""
        from gaiad.run_schemas import RunRow

        path = f"/research{query_of(tenant=tenant, limit=str(limit), review='1' if to_review else '')}"
        return self._connection.call("GET", path, dict[str, list[RunRow]])["runs"]

    def review(self, research_id: str, tenant: str, *, done: bool = True) -> None:
        """Tick a run to review off, or put it back. Raises NotFound, Conflict while it is under way."""
        path = f"/research/{quote(research_id, safe='')}/review"
        self._connection.call("POST", path, dict[str, object], {"tenant": tenant, "done": done})

    def source(self, research_id: str, source_id: str, tenant: str) -> "SourceText":
        """The whole text of one source of a run."""
        from gaiad.run_schemas import SourceText

        names = f"{quote(research_id, safe='')}/sources/{quote(source_id, safe='')}"
        return self._connection.call("GET", f"/research/{names}{query_of(tenant=tenant)}", SourceText)
