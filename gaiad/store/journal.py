"""The journal of runs that may be cut off (`gaiad.base.journal`), in the tenant's file; gone when the run has ended."""

import sqlite3
import zlib
from collections import Counter
from hashlib import sha256

from gaiad.base.clock import Clock, to_epoch_ms
from gaiad.store.home_databases import HomeDatabases

_KEEP_MS = 7 * 86_400_000


class RunJournal:
    """Of one life of the run `run_id`: a research run or a turn."""

    def __init__(self, databases: HomeDatabases, clock: Clock, tenant: str, run_id: str) -> None:
        self._databases = databases
        self._clock = clock
        self._tenant = tenant
        self._run_id = run_id
        self._asked: Counter[str] = Counter()

    async def begin(self, name: str, asked: bytes) -> tuple[str, bytes | None]:
        """See StepJournal. The same thing asked for the nth time is a step of its own."""
        digest = sha256(f"{name}\0".encode() + asked).hexdigest()[:32]
        self._asked[digest] += 1
        key, now_ms = f"{digest}-{self._asked[digest]}", to_epoch_ms(self._clock.now())

        def note(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT result FROM journal WHERE run = ? AND key = ?"
            if (row := connection.execute(query, (self._run_id, key)).fetchone()) is None:
                values = (self._run_id, key, name, now_ms)
                connection.execute("INSERT INTO journal (run, key, name, begun_ms) VALUES (?, ?, ?, ?)", values)
                return None
            return None if row[0] is None else zlib.decompress(row[0])

        return key, await self._databases.write(self._tenant, note)

    async def end(self, key: str, result: bytes) -> None:
        """See StepJournal. Attempts count from here: a run that comes further is not what the daemon dies of."""
        body, now_ms = zlib.compress(result, 1), to_epoch_ms(self._clock.now())

        def note(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE journal SET ended_ms = ?, result = ? WHERE run = ? AND key = ?",
                (now_ms, body, self._run_id, key),
            )
            connection.execute("UPDATE jobs SET attempts = 1 WHERE job_id = ? AND attempts > 1", (self._run_id,))

        await self._databases.write(self._tenant, note)

    async def steps_done(self) -> int:
        """How many steps of earlier lives came to their end."""
        query = "SELECT count(*) FROM journal WHERE run = ? AND result IS NOT NULL"
        return await self._databases.read(
            self._tenant, lambda connection: int(connection.execute(query, (self._run_id,)).fetchone()[0]), 0
        )


def drop_journal(connection: sqlite3.Connection, run_id: str) -> None:
    """The run has ended: nothing takes it up again."""
    connection.execute("DELETE FROM journal WHERE run = ?", (run_id,))


def drop_old_journals(connection: sqlite3.Connection, now_ms: int) -> None:
    """Those of runs that nobody took up again for a week."""
    connection.execute("DELETE FROM journal WHERE begun_ms < ?", (now_ms - _KEEP_MS,))
