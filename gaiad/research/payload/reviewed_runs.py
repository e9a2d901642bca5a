"""Which of the runs to review somebody has looked at (GAM, failure mode 3: human review): a mark beside the run.

The run itself never changes. The mark goes with it.
"""

import sqlite3

from gaiad.clock import Clock, to_iso
from gaiad.ports import Call
from gaiad.research.payload.begun_runs import RunFiles
from gaiad.store.database import Migration

REVIEWED_MIGRATION: Migration = """
CREATE TABLE reviewed_runs (
    research_id TEXT PRIMARY KEY REFERENCES runs (research_id),
    reviewed_at TEXT NOT NULL
) WITHOUT ROWID;
"""
REVIEWED_AT = "coalesce((SELECT reviewed_at FROM reviewed_runs AS seen WHERE seen.research_id = runs.research_id), '')"
"""When a row of `runs` was reviewed, "" when nobody did."""
NOT_REVIEWED = "NOT EXISTS (SELECT 1 FROM reviewed_runs AS seen WHERE seen.research_id = runs.research_id)"


class ReviewedRuns:
    """The marks of all tenants."""

    def __init__(self, files: RunFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    async def mark(self, research_id: str, call: Call, *, done: bool) -> None:
        """Tick a kept run off, or with `done` false put it back; what is so already stays as it is."""
        now = to_iso(self._clock.now())

        def write(connection: sqlite3.Connection) -> int:
            if not done:
                return connection.execute("DELETE FROM reviewed_runs WHERE research_id = ?", (research_id,)).rowcount
            insert = "INSERT OR IGNORE INTO reviewed_runs SELECT research_id, ? FROM runs WHERE research_id = ?"
            return connection.execute(insert, (now, research_id)).rowcount

        await self._files.write(call.tenant, write)
