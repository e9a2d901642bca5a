"""Where thoughts for later are kept with the runs that took them up, over restarts.

What a run may spend is reserved in its row before the first token is written, so that a crash never lets a day
spend more than it has; when the run ends the row says what it was.
"""

import hashlib
import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, get_args

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import IdMaker
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import SeedRecord

SeedState = Literal["open", "taken", "proposed", "passed", "failed", "dropped"]
SEED_STATES: tuple[SeedState, ...] = get_args(SeedState)
_NEXT: dict[SeedState, tuple[SeedState, ...]] = {
    "open": ("taken", "dropped"),
    "taken": ("open", "proposed", "dropped"),
    "proposed": ("open", "passed", "failed", "dropped"),
    "passed": (),
    "failed": (),
    "dropped": (),
}
_NO_WORD = re.compile(r"[\W_]+")


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """One thought of a tenant. `turn_id` is the turn that wrote it; times are UTC.

    `proposal` is what it was developed into, also when the vote on it was left, "" before. `reason` says in words how
    it came to its state; `failures` counts the runs that failed on it.
    """

    seed_id: str
    tenant: str
    text: str
    state: SeedState
    turn_id: str
    added_at: str
    changed_at: str
    proposal: str = ""
    proposal_id: str = ""
    reason: str = ""
    failures: int = 0


def seed_record(seed: Seed) -> SeedRecord:
    """The thought on the wire; whose it is, the caller knows."""
    return msgspec.convert(seed, SeedRecord, from_attributes=True)


def check_step(seed_id: str, was: SeedState, now: SeedState) -> None:
    """Raises Conflict for a step that no thought may take."""
    if now not in _NEXT[was]:
        choices = ", ".join(_NEXT[was]) or "nothing else, for it is done"
        raise Conflict(f"the thought {seed_id!r} is {was} and cannot become {now}; it may become {choices}")


def thought_key(text: str) -> str:
    """The same for two texts that differ in case, space and punctuation only; "" for a text without a word."""
    words = _NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest() if words else ""


def cut_thought(text: str, most_characters: int) -> str:
    """The text without space around it, cut at its limit with a sign that it was."""
    text = text.encode("utf-8", "replace").decode().strip()
    return text if len(text) <= most_characters else text[: most_characters - 1].rstrip() + "…"


_SEED = "seed_id, text, state, turn_id, added_at, changed_at, proposal, proposal_id, reason, failures"
_STOPPED = "the daemon stopped while it was thought about"


class SeedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a thought was taken up. `tokens` are reserved ones until it ended; `outcome` is "" until then."""

    run_id: str
    seed_id: str
    tenant: str
    day: str
    started_at: str
    tokens: int
    outcome: str = ""
    why: str = ""


class SeedStore:
    """The thoughts of all tenants. Every call names the tenant or goes through all of them, one after the other."""

    def __init__(
        self, databases: HomeDatabases, clock: Clock, ids: IdMaker, most_open: int, thought_characters: int
    ) -> None:
        self._databases = databases
        self._clock = clock
        self._ids = ids
        self._most_open = most_open
        self._characters = thought_characters

    async def add(self, tenant: str, text: str, turn_id: str) -> Seed:
        """Keep a thought; one that says the same as an earlier one is that one. Raises BadInput for no words.

        When too many are open already it is kept as dropped.
        """
        thought, key = cut_thought(text, self._characters), thought_key(text)
        if not key:
            raise BadInput(f"the thought {text[:80]!r} of turn {turn_id!r} has no words; give a sentence")
        seed_id, now = self._ids.make("seed"), self._now()

        def insert(connection: sqlite3.Connection) -> Seed:
            row = connection.execute(f"SELECT {_SEED} FROM seeds WHERE key = ?", (key,)).fetchone()
            if row is None:
                (waiting,) = connection.execute("SELECT count(*) FROM seeds WHERE state = 'open'").fetchone()
                full = waiting >= self._most_open
                reason = f"{waiting} thoughts wait already, and no more than {self._most_open} may" if full else ""
                values = (seed_id, key, thought, "dropped" if full else "open", turn_id, now, now, reason)
                connection.execute(
                    "INSERT INTO seeds (seed_id, key, text, state, turn_id, added_at, changed_at, reason)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    values,
                )
            return _one(connection, tenant, "key = ?", (key,))

        return await self._databases.write(tenant, insert)

    async def listed(self, tenant: str, limit: int = 50, state: SeedState | None = None) -> list[Seed]:
        """The tenant's last thoughts, newest first; only those in one state when it is given."""
        where, values = ("state = ?", (state,)) if state else ("? = ''", ("",))
        return await self._seeds(tenant, f"{where} ORDER BY seed_id DESC LIMIT ?", (*values, limit))

    async def find(self, tenant: str, seed_id: str) -> Seed:
        """One thought. Raises NotFound."""
        found = await self._seeds(tenant, "seed_id = ?", (seed_id,))
        if not found:
            raise NotFound(f"no thought is called {seed_id!r}; `gaiad council seeds` lists them")
        return found[0]

    async def open_by_tenant(self) -> dict[str, int]:
        """How many thoughts wait, of every tenant that has any kept."""
        sql = "SELECT count(*) FROM seeds WHERE state = 'open'"
        found: dict[str, int] = {}
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                found[tenant] = await self._databases.read(tenant, lambda c: int(c.execute(sql).fetchone()[0]), 0)
        return found

    async def next_open(self) -> Seed | None:
        """The oldest open thought of the tenant whose turn it is: the one whose last run lies back longest."""
        waiting: list[tuple[str, str]] = []
        for tenant, open_ones in (await self.open_by_tenant()).items():
            if open_ones:
                last = await self._runs(tenant, "1 ORDER BY run_id DESC LIMIT 1", ())
                waiting.append((last[0].run_id if last else "", tenant))
        if not waiting:
            return None
        _, tenant = min(waiting)
        found = await self._seeds(tenant, "state = 'open' ORDER BY seed_id LIMIT 1", ())
        return found[0] if found else None

    async def begin(self, seed: Seed, day: str, reserved: int) -> SeedRun:
        """The thought is taken, and so many tokens of the day are held for it. Raises Conflict when it is not open."""
        run = SeedRun(
            run_id=self._ids.make("run"),
            seed_id=seed.seed_id,
            tenant=seed.tenant,
            day=day,
            started_at=self._now(),
            tokens=reserved,
        )

        def insert(connection: sqlite3.Connection) -> None:
            _step(connection, seed, "taken", self._now())
            connection.execute(
                "INSERT INTO seed_runs (run_id, seed_id, day, started_at, tokens) VALUES (?, ?, ?, ?, ?)",
                (run.run_id, run.seed_id, run.day, run.started_at, run.tokens),
            )

        await self._databases.write(seed.tenant, insert)
        return run

    async def propose(self, seed: Seed, proposal: str) -> Seed:
        """The thought was developed into a proposal, which stays with it. Raises Conflict when it is not taken."""

        def update(connection: sqlite3.Connection) -> Seed:
            _step(connection, seed, "proposed", self._now())
            connection.execute("UPDATE seeds SET proposal = ? WHERE seed_id = ?", (proposal, seed.seed_id))
            return _one(connection, seed.tenant, "seed_id = ?", (seed.seed_id,))

        return await self._databases.write(seed.tenant, update)

    async def settle(
        self,
        run: SeedRun,
        state: SeedState,
        outcome: str,
        why: str,
        tokens: int,
        *,
        proposal_id: str = "",
        failed: int = 0,
    ) -> Seed:
        """The run ended, having spent `tokens`; the thought is in `state` now, and failed so many times more."""

        def update(connection: sqlite3.Connection) -> Seed:
            seed = _one(connection, run.tenant, "seed_id = ?", (run.seed_id,))
            _step(connection, seed, state, self._now())
            connection.execute(
                "UPDATE seeds SET reason = ?, proposal_id = ?, failures = failures + ? WHERE seed_id = ?",
                (why, proposal_id or seed.proposal_id, failed, run.seed_id),
            )
            _end_run(connection, run.run_id, self._now(), tokens, outcome, why)
            return _one(connection, run.tenant, "seed_id = ?", (run.seed_id,))

        return await self._databases.write(run.tenant, update)

    async def recover(self) -> int:
        """After a start: runs that a stop cut off end with all they had reserved, their thoughts are open again."""
        found = 0
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                found += await self._databases.write(tenant, self._recover)
        return found

    async def tokens_on(self, day: str) -> int:
        """What all tenants' runs of a day (YYYY-MM-DD in the user's zone) spent or hold."""
        sql = "SELECT coalesce(sum(tokens), 0) FROM seed_runs WHERE day = ?"
        spent = 0
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                spent += await self._databases.read(tenant, lambda c: int(c.execute(sql, (day,)).fetchone()[0]), 0)
        return spent

    async def runs_since(self, moment: str) -> list[SeedRun]:
        """All tenants' runs that began at or after a UTC moment, oldest first."""
        found: list[SeedRun] = []
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                found += await self._runs(tenant, "started_at >= ?", (moment,))
        return sorted(found, key=lambda run: run.run_id)

    async def last_run(self) -> SeedRun | None:
        """The newest run of all."""
        found: list[SeedRun] = []
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                found += await self._runs(tenant, "1 ORDER BY run_id DESC LIMIT 1", ())
        return max(found, key=lambda run: run.run_id, default=None)

    def _recover(self, connection: sqlite3.Connection) -> int:
        now = self._now()
        connection.execute(
            "UPDATE seeds SET state = 'open', changed_at = ?, reason = ? WHERE state IN ('taken', 'proposed')",
            (now, _STOPPED),
        )
        return connection.execute(
            "UPDATE seed_runs SET ended_at = ?, outcome = 'interrupted', why = ? WHERE outcome = ''", (now, _STOPPED)
        ).rowcount

    async def _runs(self, tenant: str, where: str, values: Sequence[object]) -> list[SeedRun]:
        def select(connection: sqlite3.Connection) -> list[SeedRun]:
            found = connection.execute(
                f"SELECT run_id, seed_id, day, started_at, tokens, outcome, why FROM seed_runs WHERE {where}", values
            )
            return [_run(tenant, row) for row in found]

        return await self._databases.read(tenant, select, [])

    async def _seeds(self, tenant: str, where: str, values: Sequence[object]) -> list[Seed]:
        return await self._databases.read(tenant, lambda connection: _seeds(connection, tenant, where, values), [])

    def _now(self) -> str:
        return to_iso(self._clock.now())


def _step(connection: sqlite3.Connection, seed: Seed, now: SeedState, at: str) -> None:
    """One step of a thought, from the state it has in the table."""
    was = _one(connection, seed.tenant, "seed_id = ?", (seed.seed_id,)).state
    check_step(seed.seed_id, was, now)
    connection.execute("UPDATE seeds SET state = ?, changed_at = ? WHERE seed_id = ?", (now, at, seed.seed_id))


def _end_run(connection: sqlite3.Connection, run_id: str, at: str, tokens: int, outcome: str, why: str) -> None:
    connection.execute(
        "UPDATE seed_runs SET ended_at = ?, tokens = ?, outcome = ?, why = ? WHERE run_id = ?",
        (at, tokens, outcome, why, run_id),
    )


def _one(connection: sqlite3.Connection, tenant: str, where: str, values: Sequence[object]) -> Seed:
    found = _seeds(connection, tenant, where, values)
    if not found:
        raise NotFound(f"no thought with {where} {values!r} in tenant {tenant!r}")
    return found[0]


def _seeds(connection: sqlite3.Connection, tenant: str, where: str, values: Sequence[object]) -> list[Seed]:
    names = _SEED.split(", ")
    rows = connection.execute(f"SELECT {_SEED} FROM seeds WHERE {where}", values).fetchall()
    return [msgspec.convert({"tenant": tenant, **dict(zip(names, row, strict=True))}, Seed) for row in rows]


def _run(tenant: str, row: Sequence[object]) -> SeedRun:
    names = ("run_id", "seed_id", "day", "started_at", "tokens", "outcome", "why")
    return msgspec.convert({"tenant": tenant, **dict(zip(names, row, strict=True))}, SeedRun)
