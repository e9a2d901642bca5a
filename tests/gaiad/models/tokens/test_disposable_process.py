"""A function in a process of its own: what it returns, and every way it can fail, in words."""

import asyncio
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gaiad.models.tokens.disposable_process import PROCESSES, Died, DisposableProcess, ProcessLimits, Sandbox, run
from tests.makers.waiting import until

WITH_THREADS = """
import os, socket, sys, threading, warnings
warnings.simplefilter("error")
from gaiad.models.tokens.disposable_process import run

ours, theirs = socket.socketpair()
inside, leave = threading.Event(), threading.Event()
locked = threading.Lock()

def busy():
    with locked:
        inside.set()
        leave.wait()

threading.Thread(target=busy).start()
inside.wait()
sys.stdout.write("once ")

def work():
    try:
        os.fstat(ours.fileno())
    except OSError:
        return b"closed"
    return b"open"

print(run(work).decode(), run(lambda: str(threading.active_count()).encode()).decode())
leave.set()
ours.close()
theirs.close()
"""


def spin():
    while True:
        pass


def test_the_result_comes_back_whole():
    assert run(lambda: b"") == b""
    assert run(lambda: b"\x00\x01" * 3_000_000) == b"\x00\x01" * 3_000_000


def test_it_sees_what_the_parent_has_and_the_parent_nothing_of_it():
    held = [1]
    assert run(lambda: bytes([held.pop()])) == b"\x01"
    assert held == [1]


@pytest.mark.parametrize(
    ("work", "limits", "words"),
    [
        (lambda: ctypes.string_at(0), ProcessLimits(), "SIGSEGV"),
        (lambda: os.abort(), ProcessLimits(), "SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGFPE) or b"", ProcessLimits(), "SIGFPE"),
        (spin, ProcessLimits(cpu_s=1), "more than 1 s of processor time"),
        (lambda: time.sleep(600) or b"", ProcessLimits(wall_s=0.2), "did not finish within 0.2 s"),
        (lambda: bytes(1 << 30), ProcessLimits(memory_bytes=100 << 20), "MemoryError"),
        (lambda: 1 // 0, ProcessLimits(), "failed: ZeroDivisionError: "),
        (lambda: os._exit(7), ProcessLimits(), "status 7"),
        (lambda: os._exit(0), ProcessLimits(), "status 0"),
        (lambda: b"x" * 5000, ProcessLimits(result_bytes=4000), "more than 4000 bytes"),
        (lambda: (os.write(2, b"a reason\n"), os.abort()), ProcessLimits(), "SIGABRT: a reason"),
    ],
)
def test_every_death_has_words(work, limits, words):
    begun = time.monotonic()
    with pytest.raises(Died, match=words):
        run(work, limits)
    assert time.monotonic() - begun < 60.0


def test_recursion_in_c_ends_at_half_of_a_workers_stack():
    def overflow():
        callback = ctypes.CFUNCTYPE(ctypes.c_int)

        def deeper():
            return callback(deeper)()

        sys.setrecursionlimit(1_000_000)
        return bytes([callback(deeper)()])

    with pytest.raises(Died, match="SIGSEGV"):
        run(overflow)


def test_no_thread_socket_or_buffer_of_the_parent_is_used_in_it():
    command = [sys.executable, "-W", "error", "-c", WITH_THREADS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "once closed 1\n", "what was in the parent's buffer is written once"
    assert done.stderr == ""


def test_several_at_once_are_looked_after_by_one_thread():
    trials = [DisposableProcess(lambda number=number: bytes([number])) for number in range(5)]
    for trial in trials:
        trial.start()
    end = time.monotonic() + 60
    while not all(trial.over for trial in trials) and time.monotonic() < end:
        for trial in trials:
            trial.pump()
    assert [trial.outcome() for trial in trials] == [bytes([number]) for number in range(5)]


def test_killing_it_leaves_no_zombie_and_no_descriptor():
    before = _descriptors()
    trial = DisposableProcess(spin)
    trial.kill()
    trial.start()
    pid = trial._pid
    trial.kill()
    trial.kill()
    with pytest.raises(Died, match="was stopped"):
        trial.outcome()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    assert _descriptors() == before


def test_it_dies_with_its_parent():
    script = (
        "import os, time\nfrom gaiad.models.tokens.disposable_process import DisposableProcess\n"
        "trial = DisposableProcess(lambda: time.sleep(600) or b'')\ntrial.start()\nprint(trial._pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 60
    while _runs(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _runs(pid)


def test_it_works_beside_a_thread_that_allocates():
    stop = threading.Event()

    def allocate():
        while not stop.is_set():
            [bytes(10_000) for _ in range(100)]

    thread = threading.Thread(target=allocate)
    thread.start()
    try:
        assert [run(lambda: b"x" * 100_000) for _ in range(20)] == [b"x" * 100_000] * 20
    finally:
        stop.set()
        thread.join()


def test_it_may_be_started_by_any_thread_and_with_high_descriptors():
    results = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    held = [os.dup(0) for _ in range(1100)]
    try:
        thread = threading.Thread(target=lambda: results.append(run(lambda: b"from a thread")))
        thread.start()
        thread.join()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert results == [b"from a thread"]


def test_a_machine_without_room_for_another_says_so():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(Died, match="could not be tested"):
            run(lambda: b"")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _descriptors():
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


def _runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def once_there(path):
    """Work that is done when there is such a file; a process of its own hears nothing else of us."""

    def work():
        while not path.exists():
            time.sleep(0.01)
        return b"x"

    return work


PATIENT = ProcessLimits(wall_s=100.0, cpu_s=100)


async def test_who_waits_for_a_process_leaves_the_loop_to_others(tmp_path):
    sandbox, told = Sandbox(), tmp_path / "told"
    waiting = asyncio.ensure_future(sandbox.in_process(once_there(told), PATIENT))
    assert await sandbox.in_process(lambda: b"another") == b"another"
    assert not waiting.done()
    told.touch()
    assert await waiting == b"x"


async def test_every_death_in_a_sandbox_has_words_too():
    sandbox = Sandbox()
    with pytest.raises(Died, match="SIGABRT"):
        await sandbox.in_process(lambda: os.abort())
    with pytest.raises(Died, match=r"did not finish within 0\.2 s"):
        await sandbox.in_process(lambda: time.sleep(600) or b"", ProcessLimits(wall_s=0.2))


async def test_no_more_processes_at_once_than_places(tmp_path):
    sandbox, told = Sandbox(), tmp_path / "told"

    def numbered(number):
        def work():
            (tmp_path / f"begun {number}").touch()
            return once_there(told)()

        return work

    waiting = [asyncio.ensure_future(sandbox.in_process(numbered(n), PATIENT)) for n in range(PROCESSES * 3)]
    await until(lambda: len(list(tmp_path.glob("begun *"))) >= PROCESSES)
    await asyncio.sleep(0.1)  # another would begin now
    assert len(list(tmp_path.glob("begun *"))) == PROCESSES
    told.touch()
    assert await asyncio.gather(*waiting) == [b"x"] * PROCESSES * 3


async def test_a_caller_that_is_cancelled_ends_its_process(tmp_path):
    sandbox, told = Sandbox(), tmp_path / "told"

    def work():
        told.write_text(str(os.getpid()))
        return time.sleep(600) or b""

    waiting = asyncio.ensure_future(sandbox.in_process(work, PATIENT))
    await until(lambda: told.exists() and told.read_text())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not _runs(int(told.read_text()))


async def test_work_in_a_thread_lets_others_go_on_and_no_process_is_forked_beside_it():
    sandbox, leave, order = Sandbox(), threading.Event(), []

    async def noted(name, work):
        result = await work
        order.append(name)
        return result

    thread = asyncio.ensure_future(noted("thread", sandbox.in_thread(lambda: leave.wait() and 7)))
    await asyncio.sleep(0)
    process = asyncio.ensure_future(noted("process", sandbox.in_process(lambda: b"x")))
    await asyncio.sleep(0.2)
    assert order == []
    leave.set()
    assert (await thread, await process) == (7, b"x")
    assert order == ["thread", "process"]


async def test_what_went_wrong_in_a_thread_is_raised_to_who_waited():
    with pytest.raises(ZeroDivisionError):
        await Sandbox().in_thread(lambda: 1 // 0)
