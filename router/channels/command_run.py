"""One command from its first process to its last: started under bubblewrap, read along, held to its limits, ended.

Blocks; for a thread that may wait. It returns when nothing of the command is left, whatever it did to stay.
"""

import contextlib
import os
import select
import selectors
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gaiad.approval_schemas import Execution
from gaiad.clock import Clock
from gaiad.errors import Unavailable
from gaiad.ports import Call
from router.channels.process_watch import folder_size, hand_over, memory_of, owner_of, processes_below
from router.channels.sandbox import Programs, sandbox_arguments, system_view
from router.channels.shell_limits import MIB, ShellLimits

_READ_BYTES = 65536
_KILL_GRACE_S = 5.0


class CommandRun:
    """One command; `run` once."""

    def __init__(
        self, programs: Programs, argv: Sequence[str], work: Path, limits: ShellLimits, call: Call, clock: Clock
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
        self._folder_due = 0.0
        self._first: int | None = None  # a handle of the namespace's first process

    def run(self) -> Execution:
        """Raises Unavailable when the command was never started."""
        began = self._clock.monotonic()
        status_read, status_write = os.pipe()
        try:
            view = system_view(self._limits.numbers.sandbox)
            as_root = os.geteuid() == 0
            if as_root:
                hand_over(self._work, self._limits.numbers.sandbox.root_becomes)
            command = sandbox_arguments(
                self._programs, view, self._work, self._argv, self._limits, status_write, as_root=as_root
            )
            process = self._spawn(command, status_write)
        except OSError as error:
            os.close(status_read)
            raise Unavailable(f"the sandbox cannot be prepared: {error}", 60.0) from error
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(status_write)
        try:
            stopped = self._wait(process, status_read)
            self._end(process)
            stopped = stopped or self._read_rest(process, status_read)
        finally:
            self._end(process)
            self._close(process, status_read)
        return self._told(process.returncode, stopped, (self._clock.monotonic() - began) * 1000)

    def _spawn(self, command: list[str], status_fd: int) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={},
                cwd="/",
                pass_fds=(status_fd,),
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"bubblewrap cannot be started ({error.strerror or error})", 60.0) from error

    def _wait(self, process: "subprocess.Popen[bytes]", status: int) -> str:
        """Read along until it ends or a limit is reached: which one, "" for none."""
        assert process.stdout is not None
        numbers = self._limits.numbers.watch
        with selectors.DefaultSelector() as selector:
            for fd, store in ((process.stdout.fileno(), self._take_output), (status, self._take_status)):
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

    def _read_rest(self, process: "subprocess.Popen[bytes]", status: int) -> str:
        """What was written last, now that nothing is left that could write more."""
        assert process.stdout is not None
        while not self._over_output() and self._take_output(process.stdout.fileno()):
            pass
        self._take_status(status)
        return self._over_output()

    def _take_output(self, fd: int) -> bool:
        """Whether there may be more."""
        piece = _read(fd)
        self._seen_bytes += len(piece)
        room = self._limits.output_bytes - len(self._output)
        self._output += piece[:room]
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
        return self._over_output() or self._over_processes() or self._over_folder(now)

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
        return ""

    def _over_folder(self, now: float) -> str:
        if now < self._folder_due:
            return ""
        self._folder_due = now + self._limits.numbers.watch.folder_every_ms / 1000
        most = self._limits.numbers.work.most_entries
        size = folder_size(self._work, self._limits.work_bytes, most)
        if size.bytes > self._limits.work_bytes:
            return f"its work directory grew above {self._limits.work_bytes // MIB} MiB (shell.work_mib)"
        return f"its work directory has more than {most} files" if size.entries > most else ""

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
            raise Unavailable(f"the sandbox does not stand: {said}", 60.0)
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
