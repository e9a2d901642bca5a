"""What intake may ask of commands that wait for a person, and what an approval sets going. A part of `service`.

The path of decision 13 from the council's yes on: the row and its audit, the person's word, the copy of the work
directory, the sandbox, the continuation turn that verifies, and the revert when it fails. One command a session at a
time. Nothing is run that was not approved by the very hash that the council voted on and the audit has.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import timedelta
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from gaiad.approval_book import ApprovalBook
from gaiad.approval_schemas import Approval, ApprovalState, ApprovalWish
from gaiad.chat_schemas import ChatAnswer
from gaiad.clock import Clock, to_iso
from gaiad.config import ShellConfig
from gaiad.council_ports import Executor
from gaiad.errors import Conflict, GaiadError
from gaiad.events import EventHub
from gaiad.ids import IdMaker, short
from gaiad.ledger.approvals import APPROVED, DENIED, ApprovalLog
from gaiad.ledger.audit import AuditLog
from gaiad.logs import get_logger
from gaiad.ports import Call
from gaiad.store.file import DatabaseFile
from gaiad.tasks import TaskGroup
from gaiad.turn.executed import Executed
from router.channels.shell import Shell
from router.channels.shell_limits import shell_limits
from router.channels.work_folder import WorkFolder

_WORK = "work"
_QUEUE = "approvals"
_VERDICTS: dict[str, ApprovalState] = {"SUCCESS": "verified", "REVERTED": "reverted"}
_log = get_logger("gaiad.approvals")

Verify = Callable[[Executed, Call], AsyncGenerator[tuple[str, object], None]]
"""A continuation turn; its last event is `done` with a ChatAnswer."""


async def open_approvals(
    stack: AsyncExitStack,
    home: Path,
    config: ShellConfig,
    audit: AuditLog,
    hub: EventHub,
    clock: Clock,
    environment: Mapping[str, str],
) -> "Approving":
    """The queue of a home with its sandbox, which is tried first; closed with `stack`."""
    log = ApprovalLog(home / _QUEUE)
    stack.push_async_callback(log.close)
    shell = Shell(config, clock, environment)
    stack.callback(shell.close)
    if refusal := await shell.probe():
        _log.warning("commands_refused", reason=refusal)
    return Approving(home, log, audit, shell, hub, clock, config)


class Approving:
    """One for the daemon; the Approvals port. What is approved is verified with what `start` is given."""

    _verify: Verify

    def __init__(
        self,
        home: Path,
        log: ApprovalLog,
        audit: AuditLog,
        executor: Executor,
        hub: EventHub,
        clock: Clock,
        config: ShellConfig,
    ) -> None:
        self._work = home / _WORK
        self._book = ApprovalBook(log, audit, hub, clock)
        self._executor = executor
        self._clock = clock
        self._config = config
        self._ids = IdMaker(clock)
        self._tasks = TaskGroup("approvals")
        self._sessions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def refusal(self) -> str:
        """Why no command can be run here, "" when one can."""
        return self._executor.refusal

    @property
    def trouble(self) -> str:
        """Why commands are refused though the settings allow them, "" when they are not."""
        return self.refusal if self._config.enabled else ""

    @property
    def busy(self) -> bool:
        """Whether a command runs or is being verified."""
        return any(True for _ in self._sessions)

    def use_config(self, config: ShellConfig) -> None:
        """Other limits and times, from the next command on."""
        self._config = config
        self._executor.use_config(config)

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies; work directories are not in it."""
        return self._book.log.files()

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's queue, for a restore. Raises BadInput, Conflict."""
        return self._book.log.file(tenant)

    # -- the queue

    async def ask(self, wish: ApprovalWish, call: Call) -> Approval:
        """Put a command in the queue; in the audit and durable when this returns. Raises BadInput, Unavailable."""
        now = self._clock.now()
        approval = Approval(
            **{**msgspec.structs.asdict(wish), "command": list(wish.command)},
            id=self._ids.make("apr"),
            asked_at=to_iso(now),
            changed_at=to_iso(now),
            expires_at=to_iso(now + timedelta(seconds=self._config.approval_s)),
        )
        return await self._book.ask(approval, call)

    async def listed(self, call: Call, limit: int, *, every_state: bool) -> list[Approval]:
        """Those that wait, oldest first; with `every_state` the last `limit`, newest first."""
        found = await self._book.log.in_state(call.tenant, ("waiting",))
        waiting = [await self._book.expired(one, call) for one in found]
        if every_state:
            return await self._book.log.newest(call.tenant, limit)
        return [one for one in waiting if one.state == "waiting"][:limit]

    async def named(self, name: str, call: Call) -> Approval:
        """The one called so, however it stands. Raises NotFound, BadInput."""
        return await self._book.log.find(call.tenant, name)

    async def deny(self, name: str, call: Call, by: str) -> Approval:
        """The person says no. Raises NotFound, BadInput, and Conflict when it does not wait any more."""
        found = await self._book.waiting(name, call)
        return await self._book.decide(found, "denied", DENIED, call, by)

    async def approve(self, name: str, sha256: str, call: Call, by: str, *, wait: bool) -> Approval:
        """The person says yes to the arguments of that hash, and the command is run; with `wait` until it is verified.

        Whoever goes away meanwhile stops nothing. Raises NotFound, BadInput, and Conflict when it does not wait any
        more, is not what was shown or voted on, or cannot be run here.
        """
        found = await self._book.waiting(name, call)
        if sha256 != found.sha256:
            raise Conflict(
                f"{short(found.id)}: you were shown the SHA-256 {sha256}, and this command's is {found.sha256}; look "
                "at it again with `gaiad approvals`"
            )
        await self._book.check_unchanged(found, call)
        if self.refusal:
            raise Conflict(f"{short(found.id)} cannot be run: {self.refusal}")
        running = await self._book.decide(found, "running", APPROVED, call, by)
        exactly = msgspec.structs.replace(running, command=found.command)  # what was checked, whatever the row says now
        work = self._tasks.start("command", self._run(exactly, call.tenant))
        return await asyncio.shield(work) if wait else running

    # -- the command

    async def _run(self, approval: Approval, tenant: str) -> Approval:
        """Copy, run, verify; how it stands then. Whatever fails stands in it in words."""
        lock = self._sessions.setdefault((tenant, approval.session_id), asyncio.Lock())
        call, name = Call(tenant=tenant), short(approval.id)
        folder = self._folder(tenant, approval)
        async with lock:
            try:
                work = await asyncio.to_thread(folder.prepare, name, shell_limits(self._config))
                execution = await self._executor.run(approval.command, work, call)
            except GaiadError as error:
                return await self._book.ended(approval, call, "running", "failed", f"nothing was run: {error.message}")
            ran = await self._book.change(approval, tenant, "running", state="ran", execution=execution, work=str(work))
            await self._book.record("shell.ran", "daemon", ran, call, exit_status=execution.exit_status)
            self._book.tell(tenant, ran)
            return await self._verified(ran, folder, call)

    async def _verified(self, ran: Approval, folder: WorkFolder, call: Call) -> Approval:
        """The continuation turn: whether what the command did stays."""

        async def revert() -> str:
            put_back = await asyncio.to_thread(folder.revert, short(ran.id))
            return "" if put_back else f"there is no copy of {folder.path} from before it ran"

        turn_id, answer = "", None
        try:
            async with aclosing(self._verify(Executed(ran, revert), call)) as events:
                async for name, data in events:
                    if name == "turn" and isinstance(data, dict):
                        turn_id = str(data["turn_id"])
                        ran = await self._book.change(ran, call.tenant, "ran", continuation=turn_id)
                        self._book.tell(call.tenant, ran)
                    elif isinstance(data, ChatAnswer):
                        answer = data
        except GaiadError as error:
            note = f"nobody verified it: {error.message}"
            return await self._book.ended(ran, call, "ran", "unverified", note)
        if answer is None:
            return await self._book.ended(ran, call, "ran", "unverified", "nobody verified it: the turn ended early")
        state = _VERDICTS.get(answer.status, "unverified")
        if state == "verified":
            await asyncio.to_thread(folder.keep, short(ran.id))
        return await self._book.ended(ran, call, "ran", state, answer.answer)

    # -- the daemon's life

    async def start(self, verify: Verify) -> None:
        """From here on commands are verified with `verify`. What an earlier life left is settled: a command that it
        died under is undone, one that had ended is verified now.
        """
        self._verify = verify
        await self.settle()

    async def settle(self) -> None:
        """See to what was running when these rows were written, by whichever life. Nothing may be running now."""
        for tenant in self._book.log.tenants():
            call = Call(tenant=tenant)
            for approval in await self._book.log.in_state(tenant, ("running",)):
                await self._interrupted(approval, call)
            for approval in await self._book.log.in_state(tenant, ("ran",)):
                self._tasks.start("verify", self._resumed(approval, call))

    async def stop(self) -> None:
        """End what runs; its fate is settled at the next start."""
        await self._tasks.stop()

    async def _interrupted(self, approval: Approval, call: Call) -> None:
        folder = self._folder(call.tenant, approval)
        try:
            put_back = await asyncio.to_thread(folder.revert, short(approval.id))
            undone = f"{folder.path} is as it was before" if put_back else "it had not begun"
        except GaiadError as error:
            undone = error.message
        await self._book.ended(approval, call, "running", "interrupted", f"gaiad ended while it ran; {undone}")

    async def _resumed(self, approval: Approval, call: Call) -> None:
        lock = self._sessions.setdefault((call.tenant, approval.session_id), asyncio.Lock())
        async with lock:
            await self._verified(approval, self._folder(call.tenant, approval), call)

    def _folder(self, tenant: str, approval: Approval) -> WorkFolder:
        return WorkFolder(self._work, tenant, approval.session_id)
