"""What intake may ask of commands that wait for a person, and what an approval sets going. A part of `service`.

The path of decision 13 from the council's yes on: the row and its audit, the person's word, the copy of the work
directory, the sandbox, the continuation turn that verifies, and the revert when it fails. One command a session at a
time. Nothing is run that was not approved by the very hash that the council voted on and the audit has.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from council.execute_review import argv_sha256
from gaiad.base.clock import Clock, to_iso
from gaiad.base.config import ShellConfig
from gaiad.base.errors import BadInput, Conflict, GaiadError
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker, short
from gaiad.base.logs import get_logger
from gaiad.base.ports import Executor, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.ledger.approvals import APPROVED, ASKED, DENIED, EXPIRED, ApprovalLog, asked_in_audit, in_words
from gaiad.ledger.audit import AuditLog
from gaiad.service.desktop_notice import show_waiting
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.turn import Executed
from gaiad.wire.chat import ChatAnswer
from gaiad.wire.governance import EVENT_KIND, Approval, ApprovalState, ApprovalWish
from router.channels.command_run import Shell
from router.channels.sandbox import shell_limits
from router.channels.work_folder import WorkFolder

BeforeCommand = Callable[[str, str], Awaitable[None]]
"""Called with tenant and reason before a command runs; what it raises keeps the command from running."""
_log = get_logger("gaiad.approvals")


class ApprovalBook:
    """Of all tenants; `log` is the queue itself."""

    def __init__(self, log: ApprovalLog, audit: AuditLog, hub: EventHub, clock: Clock) -> None:
        self.log = log
        self._audit = audit
        self._hub = hub
        self._clock = clock

    async def ask(self, approval: Approval, call: RequestContext) -> Approval:
        """A new one: in the audit and durable when this returns. Raises BadInput, Unavailable."""
        body = {
            "id": approval.id,
            "argv": approval.command,
            "sha256": approval.sha256,
            "proposer": approval.proposed_by,
            "expires_at": approval.expires_at,
            "turn_id": approval.turn_id,
        }
        row = await self._audit.append(ASKED, "council", body, call)
        approval = msgspec.structs.replace(approval, audit_row=row)
        await self.log.add(call.tenant, approval)
        self.tell(call.tenant, approval)
        return approval

    async def waiting(self, name: str, call: RequestContext) -> Approval:
        """The one called so. Raises NotFound, BadInput, and Conflict when it does not wait any longer."""
        found = await self.expired(await self.log.find(call.tenant, name), call)
        if found.state != "waiting":
            raise Conflict(f"{short(found.id)} is {in_words(found)}; it can no longer be decided")
        return found

    async def expired(self, found: Approval, call: RequestContext) -> Approval:
        """As it is now: its time may have passed."""
        if found.state != "waiting" or self._clock.now() < datetime.fromisoformat(found.expires_at):
            return found
        try:
            return await self.decide(found, "expired", EXPIRED, call, "daemon")
        except Conflict:  # decided at this very moment
            return await self.log.find(call.tenant, found.id)

    async def check_unchanged(self, found: Approval, call: RequestContext) -> None:
        """Raises Conflict unless arguments, hash and the audit's row of the asking agree."""
        try:
            same = argv_sha256(found.command) == found.sha256
        except BadInput:
            same = False
        if same and await asyncio.to_thread(asked_in_audit, self._audit, found, call.tenant):
            return
        note = "its stored arguments differ from those that the council approved; nothing was run"
        made = await self.log.change(call.tenant, found.id, "waiting", state="failed", note=note)
        await self.record("approval.altered", "daemon", made, call)
        raise Conflict(f"{short(found.id)}: {note}")

    async def decide(self, found: Approval, state: ApprovalState, kind: str, call: RequestContext, by: str) -> Approval:
        """Of two at once one is taken. A decision that is not in the audit sets nothing going."""
        made = await self.change(found, call.tenant, "waiting", state=state)
        try:
            await self.record(kind, by, made, call)
        except GaiadError as error:
            note = f"it is not in the audit: {error.message}"
            await self.change(made, call.tenant, state, state="failed" if state == "running" else state, note=note)
            raise
        self.tell(call.tenant, made)
        return made

    async def ended(
        self, approval: Approval, call: RequestContext, before: ApprovalState, state: ApprovalState, note: str
    ) -> Approval:
        """Nothing more will become of it."""
        made = await self.change(approval, call.tenant, before, state=state, note=note)
        await self.record(f"shell.{state}", "daemon", made, call)
        self.tell(call.tenant, made)
        return made

    async def change(self, approval: Approval, tenant: str, before: ApprovalState, **fields: Any) -> Approval:
        """As it is with these fields. Raises Conflict when it is not in the state `before`."""
        return await self.log.change(tenant, approval.id, before, changed_at=to_iso(self._clock.now()), **fields)

    async def record(self, kind: str, actor: str, approval: Approval, call: RequestContext, **more: Any) -> None:
        """Words of models and programs are in it by their hash, for it cannot be unsaid."""
        body = {"id": approval.id, "argv": approval.command, "sha256": approval.sha256, **more}
        if approval.note:
            body["note_sha256"] = sha256(approval.note.encode("utf-8", "replace")).hexdigest()
        if (execution := approval.execution) is not None and kind == "shell.ran":
            body |= {"stopped": execution.stopped, "output_bytes": execution.output_bytes, "work": approval.work}
        await self._audit.append(kind, actor, body, call)

    def tell(self, tenant: str, approval: Approval) -> None:
        """To whoever follows the hub; what a command wrote is asked for, not sent around."""
        shown = msgspec.to_builtins(msgspec.structs.replace(approval, execution=None))
        self._hub.publish(EVENT_KIND, tenant, **shown)
        _log.info("approval", tenant=tenant, id=approval.id, state=approval.state)


_WORK = "work"
_VERDICTS: dict[str, ApprovalState] = {"SUCCESS": "verified", "UNVERIFIED": "unverified", "REVERTED": "reverted"}
Verify = Callable[[Executed, RequestContext], AsyncGenerator[tuple[str, object], None]]
"""A continuation turn; its last event is `done` with a ChatAnswer."""


async def open_approvals(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    config: ShellConfig,
    audit: AuditLog,
    hub: EventHub,
    clock: Clock,
    environment: Mapping[str, str],
    before_command: BeforeCommand,
) -> "ApprovalService":
    """The queue of a home with its sandbox, which is tried first; closed with `stack`."""
    log = ApprovalLog(databases)
    shell = Shell(config, clock, environment)
    stack.callback(shell.close)
    if refusal := await shell.probe():
        _log.warning("commands_refused", reason=refusal)
    if config.desktop_notice:
        tasks = await stack.enter_async_context(TaskGroup("notices"))
        tasks.start("notices", show_waiting(hub))
    return ApprovalService(databases.home, log, audit, shell, hub, clock, config, before_command)


class ApprovalService:
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
        before_command: BeforeCommand,
    ) -> None:
        self._work = home / _WORK
        self._book = ApprovalBook(log, audit, hub, clock)
        self._executor = executor
        self._clock = clock
        self._config = config
        self._ids = IdMaker(clock)
        self._tasks = TaskGroup("approvals")
        self._sessions: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._before_command = before_command
        """By tenant and the reason in words: what is done before a command, which cannot be taken back by itself."""

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

    # -- the queue

    async def ask(self, wish: ApprovalWish, call: RequestContext) -> Approval:
        """Put a command in the queue; in the audit and durable when this returns. One that the turn put there before
        gaiad ended is that one. Raises BadInput, Unavailable.
        """
        if (known := await self._book.log.of_turn(call.tenant, wish.turn_id, wish.sha256)) is not None:
            return known
        now = self._clock.now()
        approval = Approval(
            **{**msgspec.structs.asdict(wish), "command": list(wish.command)},
            id=self._ids.make("apr"),
            asked_at=to_iso(now),
            changed_at=to_iso(now),
            expires_at=to_iso(now + timedelta(seconds=self._config.approval_s)),
        )
        return await self._book.ask(approval, call)

    async def listed(self, call: RequestContext, limit: int, *, every_state: bool) -> list[Approval]:
        """Those that wait, oldest first; with `every_state` the last `limit`, newest first."""
        found = await self._book.log.in_state(call.tenant, ("waiting",))
        waiting = [await self._book.expired(one, call) for one in found]
        if every_state:
            return await self._book.log.newest(call.tenant, limit)
        return [one for one in waiting if one.state == "waiting"][:limit]

    async def named(self, name: str, call: RequestContext) -> Approval:
        """The one called so, in any state. Raises NotFound, BadInput."""
        return await self._book.log.find(call.tenant, name)

    async def deny(self, name: str, call: RequestContext, by: str) -> Approval:
        """The person says no. Raises NotFound, BadInput, and Conflict when it does not wait any longer."""
        found = await self._book.waiting(name, call)
        return await self._book.decide(found, "denied", DENIED, call, by)

    async def approve(self, name: str, sha256: str, call: RequestContext, by: str, *, wait: bool) -> Approval:
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
        """Copy, run, verify; the approval afterwards. Whatever fails is in it in words."""
        lock = self._sessions.setdefault((tenant, approval.session_id), asyncio.Lock())
        call, name = RequestContext(tenant=tenant), short(approval.id)
        folder = self._folder(tenant, approval)
        async with lock:
            try:
                work = await asyncio.to_thread(folder.prepare, name, shell_limits(self._config))
                await self._before_command(tenant, f"before command {name}")
                execution = await self._executor.run(approval.command, work, call)
            except GaiadError as error:
                return await self._book.ended(approval, call, "running", "failed", f"nothing was run: {error.message}")
            ran = await self._book.change(approval, tenant, "running", state="ran", execution=execution, work=str(work))
            await self._book.record("shell.ran", "daemon", ran, call, exit_status=execution.exit_status)
            self._book.tell(tenant, ran)
            return await self._verified(ran, folder, call)

    async def _verified(self, ran: Approval, folder: WorkFolder, call: RequestContext) -> Approval:
        """The continuation turn: whether what the command did stays."""

        async def revert() -> str:
            put_back = await asyncio.to_thread(folder.revert, short(ran.id))
            return "" if put_back else f"there is no copy of {folder.path} from before it ran"

        async def failed(why: str) -> Approval:
            """Without a verdict it counts as failed."""
            problem = await revert()
            state: ApprovalState = "unverified" if problem else "reverted"
            undone = problem or f"{folder.path} is as it was before it ran"
            return await self._book.ended(ran, call, "ran", state, f"it was not verified: {why}; {undone}")

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
            return await failed(error.message)
        if answer is None:
            return await failed("the turn ended early")
        state = _VERDICTS.get(answer.status)
        if state is None:
            return await failed(answer.answer)
        if state != "reverted":
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
            call = RequestContext(tenant=tenant)
            with suppress(Damaged):
                for approval in await self._book.log.in_state(tenant, ("running",)):
                    await self._interrupted(approval, call)
                for approval in await self._book.log.in_state(tenant, ("ran",)):
                    self._tasks.start("verify", self._resumed(approval, call))

    async def stop(self) -> None:
        """End what runs; its fate is settled at the next start."""
        await self._tasks.stop()

    async def _interrupted(self, approval: Approval, call: RequestContext) -> None:
        folder = self._folder(call.tenant, approval)
        try:
            put_back = await asyncio.to_thread(folder.revert, short(approval.id))
            undone = f"{folder.path} is as it was before" if put_back else "it had not begun"
        except GaiadError as error:
            undone = error.message
        await self._book.ended(approval, call, "running", "interrupted", f"gaiad ended while it ran; {undone}")

    async def _resumed(self, approval: Approval, call: RequestContext) -> None:
        lock = self._sessions.setdefault((call.tenant, approval.session_id), asyncio.Lock())
        async with lock:
            await self._verified(approval, self._folder(call.tenant, approval), call)

    def _folder(self, tenant: str, approval: Approval) -> WorkFolder:
        return WorkFolder(self._work, tenant, approval.session_id)
