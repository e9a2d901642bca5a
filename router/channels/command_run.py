"""One command from its first process to its last: started under bubblewrap, read along, held to its limits, ended.

Blocks; for a thread that may wait. It returns when nothing of the command is left, whatever it did to stay. The
shell channel runs approved commands so, and nothing else (decision 13): who may approve and what follows is the
service's. Without a working sandbox nothing is run, and it says why.
"""

import asyncio
import contextlib
import os
import select
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.config import ShellConfig
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.wire.governance import Execution
from router.channels.process_watch import files_in, hand_over, memory_of, owner_of, processes_below
from router.channels.sandbox import (
    IN_MEMORY,
    MIB,
    Programs,
    ShellLimits,
    filter_program,
    find_programs,
    sandbox_arguments,
    shell_limits,
    system_view,
)
from router.channels.work_folder import most_tar_bytes, put_in_place

_READ_BYTES = 65536
_KILL_GRACE_S = 5.0


class CommandRun:
    """One command; `run` once."""

    def __init__(
        self,
        programs: Programs,
        argv: Sequence[str],
        work: Path,
        limits: ShellLimits,
        call: RequestContext,
        clock: Clock,
    ) -> None:
        self._programs = programs
        self._argv = argv
        self._work = work
        self._limits = limits
        self._call = call
        self._clock = clock
        self._output = bytearray()
        self._status = bytearray()
        self._seen_bytes = 0
        self._tar = tempfile.TemporaryFile()  # noqa: SIM115  closed with the rest
        self._tar_bytes = 0
        self._first: int | None = None  # a handle of the namespace's first process

    def run(self) -> Execution:
        """Raises Unavailable when the command was never started."""
        began = self._clock.monotonic()
        status_read, status_write = os.pipe()
        tar_read, tar_write = os.pipe()
        filter_read = _program_fd()
        try:
            view = system_view(self._limits.numbers.sandbox)
            as_root = os.geteuid() == 0
            if as_root:
                hand_over(self._work, self._limits.numbers.sandbox.root_becomes)
            command = sandbox_arguments(
                self._programs, view, self._work, self._argv, self._limits, status_write, filter_read, as_root=as_root
            )
            process = self._spawn(command, tar_write, status_write, filter_read)
        except OSError as error:
            self._close_all(status_read, tar_read)
            raise Unavailable(f"the sandbox cannot be prepared: {error}", 60.0) from error
        except BaseException:
            self._close_all(status_read, tar_read)
            raise
        finally:
            self._close_all(status_write, tar_write, filter_read)
        try:
            stopped = self._wait(process, status_read, tar_read)
            self._end(process)
            stopped = stopped or self._read_rest(process, status_read, tar_read) or self._keep_work()
        finally:
            self._end(process)
            self._close(process, status_read)
            os.close(tar_read)
            self._tar.close()
        return self._told(process.returncode, stopped, (self._clock.monotonic() - began) * 1000)

    def _keep_work(self) -> str:
        """What the command left becomes the work directory; why not, where it cannot."""
        if self._reported("exit-code") is None:
            return ""
        if not self._tar_bytes:
            return "what it left in its work directory did not come out of the sandbox; it is as before"
        self._tar.seek(0)
        return put_in_place(self._tar, self._work, self._limits)

    def _close_all(self, *fds: int) -> None:
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def _spawn(self, command: list[str], tar_fd: int, *passed: int) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                command,
                stdin=tar_fd,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={},
                cwd="/",
                pass_fds=tuple(fd for fd in passed if fd >= 0),
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"bubblewrap cannot be started ({error.strerror or error})", 60.0) from error

    def _wait(self, process: "subprocess.Popen[bytes]", status: int, tar: int) -> str:
        """Read along until it ends or a limit is reached: which one, "" for none."""
        assert process.stdout is not None
        numbers = self._limits.numbers.watch
        with selectors.DefaultSelector() as selector:
            stores = ((process.stdout.fileno(), self._take_output), (status, self._take_status), (tar, self._take_tar))
            for fd, store in stores:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ, store)
            while True:
                for key, _ in selector.select(numbers.every_ms / 1000):
                    if not key.data(key.fd):
                        selector.unregister(key.fd)
                if stopped := self._over():
                    return stopped
                if process.poll() is not None:
                    return ""
                if not selector.get_map():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(numbers.every_ms / 1000)

    def _read_rest(self, process: "subprocess.Popen[bytes]", status: int, tar: int) -> str:
        """What was written last, now that nothing is left that could write more."""
        assert process.stdout is not None
        while not self._over_output() and self._take_output(process.stdout.fileno()):
            pass
        self._take_status(status)
        while not self._over_tar() and self._take_tar(tar):
            pass
        return self._over_output() or self._over_tar()

    def _take_output(self, fd: int) -> bool:
        """Whether there may be more."""
        piece = _read(fd)
        self._seen_bytes += len(piece)
        room = self._limits.output_bytes - len(self._output)
        self._output += piece[:room]
        return bool(piece)

    def _take_tar(self, fd: int) -> bool:
        piece = _read(fd)
        self._tar_bytes += len(piece)
        self._tar.write(piece)
        return bool(piece)

    def _take_status(self, fd: int) -> bool:
        piece = _read(fd)
        self._status += piece
        pid = self._reported("child-pid")
        if self._first is None and pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and all with it
                self._first = os.pidfd_open(pid)
        return bool(piece)

    # -- limits

    def _over(self) -> str:
        now = self._clock.monotonic()
        if self._call.cancelled:
            return "it was cancelled"
        if self._call.deadline is not None and now > self._call.deadline:
            return f"it ran longer than {self._limits.timeout_s:g} s (shell.timeout_s)"
        return self._over_output() or self._over_processes() or self._over_tar()

    def _over_output(self) -> str:
        if self._seen_bytes <= self._limits.output_bytes:
            return ""
        return f"it wrote more than {self._limits.output_bytes} bytes (shell.output_bytes)"

    def _over_processes(self) -> str:
        pid = self._reported("child-pid")
        if pid is None:
            return ""
        if owner_of(pid) == 0:
            return "it would have run as root"
        most = self._limits.numbers.sandbox.processes + 1  # the sandbox's own first process is one
        pids = processes_below(pid, most)
        if len(pids) > most:
            return f"it had more than {most - 1} processes at once"
        if memory_of(pids) > self._limits.memory_bytes:
            return f"it used more than {self._limits.memory_bytes // MIB} MiB of memory (shell.memory_mib)"
        most_files = self._limits.numbers.work.most_entries
        if files_in(pid, IN_MEMORY) > most_files + len(IN_MEMORY):
            return f"it had more than {most_files} files at once; its work directory is as before"
        return ""

    def _over_tar(self) -> str:
        if self._tar_bytes <= most_tar_bytes(self._limits):
            return ""
        return f"its work directory grew above {self._limits.work_bytes // MIB} MiB (shell.work_mib); it is as before"

    # -- the end

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill the namespace's first process; it has ended once nothing of the namespace is left.

        Bubblewrap itself does not wait for what a command left behind.
        """
        if self._first is None:
            process.kill()
        else:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            select.select([self._first], [], [], _KILL_GRACE_S)
        try:
            process.wait(_KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _close(self, process: "subprocess.Popen[bytes]", status: int) -> None:
        for fd in (status, self._first):
            if fd is not None:
                os.close(fd)
        if process.stdout is not None:
            process.stdout.close()

    def _told(self, code: int, stopped: str, took_ms: float) -> Execution:
        text = self._output.decode("utf-8", "replace")
        begun = self._reported("exit-code") is not None
        if not begun and not stopped:
            said = " ".join(text.split()) or f"it ended with status {code}"
            raise Unavailable(f"the sandbox cannot be set up: {said}", 60.0)
        return Execution(
            exit_status=None if stopped else code,
            stopped=stopped,
            output=text,
            output_bytes=self._seen_bytes,
            took_ms=round(took_ms, 1),
        )

    def _reported(self, name: str) -> int | None:
        """What bubblewrap has said: the first process's id, and the exit code of a command that was really started."""
        for line in self._status.splitlines():
            try:
                values = msgspec.json.decode(line, type=dict[str, int])
            except msgspec.DecodeError:
                continue
            if name in values:
                return values[name]
        return None


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return b""


def _program_fd() -> int:
    """The seccomp program of this machine to read, -1 for none."""
    program = filter_program(os.uname().machine)
    if not program:
        return -1
    reading, writing = os.pipe()
    os.write(writing, program)
    os.close(writing)
    return reading


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
