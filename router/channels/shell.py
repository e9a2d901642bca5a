"""The shell channel's outside: runs one approved command in a bubblewrap sandbox, and nothing else (decision 13).

Who may approve and what follows is the service's. A command ends by itself or at a limit, and with it everything that
it started: they live in a process namespace of their own. Without a working sandbox nothing is run, and it says why.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gaiad.base.clock import Clock
from gaiad.base.config import ShellConfig
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.wire.governance import Execution
from router.channels.command_run import CommandRun
from router.channels.sandbox import Programs, find_programs, shell_limits


class Shell:
    """The Executor port. `refusal` says why nothing can be run, "" when it can."""

    def __init__(self, config: ShellConfig, clock: Clock, environment: Mapping[str, str]) -> None:
        self._clock = clock
        self._path = environment.get("PATH", os.defpath)
        self._programs: Programs | None = None
        self._trouble = "the sandbox was not tried yet"
        self.use_config(config)
        at_once = self.limits.numbers.sandbox.at_once
        self._free = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="shell")  # its own: a command may take long

    def close(self) -> None:
        """Nothing runs any longer."""
        self._threads.shutdown()

    @property
    def refusal(self) -> str:
        return self._trouble if self._enabled else "shell.enabled is false, so commands are not run"

    def use_config(self, config: ShellConfig) -> None:
        """Other limits, from the next command on."""
        self._enabled = config.enabled
        self.limits = shell_limits(config)

    async def probe(self) -> str:
        """Try the sandbox: whether it works and has no network. Returns `refusal`."""
        try:
            self._programs = await asyncio.to_thread(find_programs, self._path)
            with tempfile.TemporaryDirectory(prefix="gaiad-probe-") as folder:
                found = await self._start(("cat", "/proc/net/dev"), Path(folder), RequestContext())
        except Unavailable as error:
            old = "nknown option" in error.message
            self._trouble = f"bubblewrap is too old; 0.8 or newer is needed ({error.message})" if old else error.message
            return self.refusal
        self._trouble = _problem_of(found)
        return self.refusal

    async def run(self, argv: Sequence[str], work: Path, call: RequestContext) -> Execution:
        """Run exactly `argv` with `work` as its only writable folder; returns when nothing of it is left.

        Raises BadInput for arguments that no process can be given, Unavailable when there is no sandbox: then nothing
        was run. A cancelled call ends the command.
        """
        if self.refusal:
            raise Unavailable(self.refusal, 60.0)
        check_arguments(argv, self.limits.numbers.command.most_bytes)
        return await self._start(argv, work, call)

    async def _start(self, argv: Sequence[str], work: Path, call: RequestContext) -> Execution:
        """In a thread that is waited for, whoever cancels: nothing may be running when this has returned."""
        if self._programs is None:
            raise Unavailable("the sandbox's programs were not looked for", 60.0)
        async with self._free:
            part = call.until(self._clock.monotonic() + self.limits.timeout_s)
            one = CommandRun(self._programs, argv, work, self.limits, part, self._clock)
            running = asyncio.get_running_loop().run_in_executor(self._threads, one.run)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                part.cancel()
                await running
                raise


def check_arguments(argv: Sequence[str], most_bytes: int) -> None:
    """Raises BadInput for what no process can be given, and for more than `most_bytes`."""
    if not argv or not argv[0]:
        raise BadInput("a command without a program; give its name as the first argument")
    if any("\0" in part for part in argv):
        raise BadInput(f"command {argv[0]!r}: an argument holds a zero byte")
    try:
        size = sum(len(part.encode()) + 1 for part in argv)
    except UnicodeEncodeError as error:
        raise BadInput(f"command {argv[0]!r}: an argument is not text ({error.reason})") from error
    if size > most_bytes:
        raise BadInput(f"command {argv[0]!r}: its arguments are {size} bytes; {most_bytes} are allowed")


def _problem_of(found: Execution) -> str:
    """What the probe's view of the network says, "" when there is none."""
    if found.stopped or found.exit_status != 0:
        said = found.stopped or " ".join(found.output.split())
        return f"bubblewrap's sandbox does not work here: {said}"
    named = {line.partition(":")[0].strip() for line in found.output.splitlines() if ":" in line}
    if named - {"lo"}:
        return f"bubblewrap's sandbox sees the network ({', '.join(sorted(named - {'lo'}))}); nothing is run in it"
    return ""
