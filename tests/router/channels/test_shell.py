"""The sandbox against what commands try: each row of the table is a real process under real bubblewrap."""

import asyncio
import contextlib
import os
import socket
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from router.channels.command_run import Shell, check_arguments
from tests.makers.sandboxed import open_shell
from tests.makers.waiting import until


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def shell():
    return await open_shell("timeout_s=20", "memory_mib=200", "work_mib=16")


async def python(shell, work, source):
    return await shell.run(["python3", "-c", source], work, RequestContext())


async def test_it_runs_exactly_what_it_is_given_in_the_work_directory(shell, work):
    argv = [
        "python3",
        "-c",
        "import os, sys; print(os.getcwd(), sys.argv[1:])",
        "a b",
        "$HOME",
        "; rm x",
        "*",
        "--",
        "",
    ]
    found = await shell.run(argv, work, RequestContext())
    assert (found.exit_status, found.stopped) == (0, "")
    assert found.output == "/work ['a b', '$HOME', '; rm x', '*', '--', '']\n"


async def test_what_it_writes_into_the_work_directory_is_there_and_its_status_is_told(shell, work):
    found = await shell.run(["sh", "-c", "echo one > kept; echo said; echo wrong >&2; exit 7"], work, RequestContext())
    assert (found.exit_status, sorted(found.output.split())) == (7, ["said", "wrong"])
    assert (work / "kept").read_text() == "one\n"


@pytest.mark.parametrize(
    "path", ["/x", "/usr/x", "/etc/x", "/bin/x", "/dev/x", "/work/../x", "/root/x", "/home/x", "/proc/sys/kernel/x"]
)
async def test_nothing_else_can_be_written_to(shell, work, path):
    found = await python(shell, work, f"open({path!r}, 'w')")
    assert found.exit_status == 1
    assert "Error" in found.output
    assert list(work.iterdir()) == []


async def test_no_home_no_secret_and_no_socket_of_the_machine_is_to_be_seen(shell, work, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("do not tell")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    paths = [str(secret), str(tmp_path / "s"), "/root", "/home", "/run", "/var", "/etc/shadow", "/etc/passwd", "/sys"]
    with contextlib.closing(listener):
        found = await python(shell, work, f"import os; print([path for path in {paths!r} if os.path.exists(path)])")
    assert found.output == "[]\n"


async def test_a_link_out_of_the_work_directory_leads_nowhere(shell, work, tmp_path):
    (tmp_path / "secret").write_text("do not tell")
    (work / "link").symlink_to(tmp_path / "secret")
    found = await shell.run(["cat", "link", "../secret", "/proc/1/root/etc/shadow"], work, RequestContext())
    assert found.exit_status == 1
    assert "do not tell" not in found.output
    assert "root:" not in found.output


async def test_no_variable_and_no_open_file_of_the_daemon_comes_along(shell, work, monkeypatch):
    monkeypatch.setenv("GAIAD_SECRET", "do not tell")
    listing = (
        "import os; print(sorted(os.environ), sorted(os.listdir('/proc/self/fd')), os.getuid(), os.listdir('/proc'))"
    )
    found = await python(shell, work, f"{listing}; print(open('/proc/1/environ').read())")
    assert "SECRET" not in found.output
    assert "do not tell" not in found.output
    assert found.output.startswith("['HOME', 'LANG', 'PATH', 'PWD', 'TERM', 'TMPDIR'] ['0', '1', '2', '3'] 1000 ")
    assert str(os.getpid()) not in found.output.split("] 1000 ")[1].split("'")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_daemons_own_port_cannot_be_reached(shell, work, host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.bind((host, 0))
    except OSError:
        pytest.skip(f"this machine has no {host}")
    listener.listen()
    with contextlib.closing(listener):
        port = listener.getsockname()[1]
        found = await python(shell, work, f"import socket; socket.create_connection(({host!r}, {port}), 2)")
    assert found.exit_status == 1
    assert "Error" in found.output


async def test_there_is_no_way_out_to_the_network(shell, work):
    connect = "socket.create_connection(('192.0.2.1', 80), 2)"
    found = await python(shell, work, f"import socket; print([name for _, name in socket.if_nameindex()]); {connect}")
    assert found.exit_status == 1
    assert "['lo']\n" in found.output
    assert "unreachable" in found.output


async def test_an_abstract_socket_of_the_machine_cannot_be_reached(shell, work):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind("\0gaiad-test-abstract")
        listener.listen()
        source = "import socket; socket.socket(socket.AF_UNIX).connect('\\0gaiad-test-abstract')"
        assert "refused" in (await python(shell, work, source)).output


async def test_it_has_no_capability_and_gets_none(shell, work):
    found = await shell.run(
        ["sh", "-c", "grep Cap /proc/self/status; grep NoNew /proc/self/status; unshare -Ur id"], work, RequestContext()
    )
    held = [line.split()[1] for line in found.output.splitlines() if line.startswith("Cap")]
    assert set(held) == {"0" * 16}
    assert "NoNewPrivs:\t1" in found.output
    assert "uid=0" not in found.output


# ------------------------------------------------------------------------------------------------------------- limits


BOUNDED_BOMB = """
import os, sys, time
for _ in range(9):  # 512 processes where nothing holds them
    try:
        os.fork()
    except OSError as error:
        print(error.strerror)
sys.stdout.flush()
time.sleep(2)
"""


async def test_a_fork_bomb_is_held_by_the_kernel_and_leaves_nothing(shell, work):
    most, seen = shell.limits.numbers.sandbox.processes, [0]

    async def count():
        while True:
            seen.append(len(_processes_of(BOUNDED_BOMB)))
            await asyncio.sleep(0.05)

    counting = asyncio.get_running_loop().create_task(count())
    found = await python(shell, work, BOUNDED_BOMB)
    counting.cancel()
    assert "temporarily unavailable" in found.output
    assert 8 < max(seen) <= most + 8  # with those outside that hold the same arguments
    assert _processes_of(BOUNDED_BOMB) == []


SLEEP = "time.sleep(3.1357)"


def _sleepers():
    return [owner for owner, line in _processes_of(SLEEP) if line.startswith(b"python3")]


async def test_it_does_not_run_as_root_even_where_the_daemon_does(shell, work):
    running = asyncio.get_running_loop().create_task(python(shell, work, f"import time; {SLEEP}"))
    await until(lambda: _sleepers())
    owners = _sleepers()
    assert 0 not in owners
    assert (await running).exit_status == 0


async def test_what_it_leaves_behind_ends_with_it(shell, work):
    found = await shell.run(
        ["sh", "-c", "(trap '' HUP TERM; sleep 1; touch later; sleep 100) & echo begun"], work, RequestContext()
    )
    assert (found.exit_status, found.output) == (0, "begun\n")
    await asyncio.sleep(1.5)
    assert list(work.iterdir()) == []
    assert _processes_of(str(work)) == []


async def test_an_output_flood_ends(shell, work):
    found = await shell.run(["yes", "flood"], work, RequestContext())
    assert "shell.output_bytes" in found.stopped
    assert (len(found.output), found.exit_status) == (65536, None)


async def test_a_command_that_takes_too_long_ends_also_when_it_closed_its_output(work):
    shell = await open_shell("timeout_s=0.5")
    for command in ("sleep 60", "exec >&- 2>&-; trap '' TERM; sleep 60"):
        started = time.monotonic()
        found = await shell.run(["sh", "-c", command], work, RequestContext())
        assert "shell.timeout_s" in found.stopped
        assert time.monotonic() - started < 30
    assert _processes_of(str(work)) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = bytearray(10**9)",
        "import mmap\nm = mmap.mmap(-1, 10**9)\nfor i in range(0, 10**9, 4096): m[i] = 1",
        "import os, time\nfor _ in range(8):\n  "
        "if not os.fork(): x = bytearray(60_000_000); time.sleep(60); os._exit(0)\ntime.sleep(60)",
    ],
    ids=["one process", "shared memory", "many processes"],
)
async def test_memory_is_capped_for_all_of_it_together(shell, work, source):
    started = time.monotonic()
    found = await python(shell, work, source)
    assert "MemoryError" in found.output or "shell.memory_mib" in found.stopped
    assert time.monotonic() - started < 50


@pytest.mark.parametrize(
    "command",
    ["head -c 100000000 /dev/zero > big", "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done"],
    ids=["one file", "many files"],
)
async def test_the_disk_is_capped(shell, work, command):
    found = await shell.run(["sh", "-c", command], work, RequestContext())
    assert "No space left" in found.output or found.exit_status not in (0, None)


async def test_temporary_folders_are_small_and_gone_afterwards(shell, work):
    full = await shell.run(
        [
            "sh",
            "-c",
            "for i in 1 2 3 4 5 6; do for d in /tmp /dev/shm; do head -c 15000000 /dev/zero > $d/$i; done; done",
        ],
        work,
        RequestContext(),
    )
    assert "No space left" in full.output or "memory" in full.stopped
    assert (await shell.run(["ls", "-A", "/tmp", "/dev/shm"], work, RequestContext())).output.split() == [
        "/dev/shm:",
        "/tmp:",
    ]


# ---------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "name", ["nope", "--help", "--nproc=100000", "-n", "a=b", "../../bin/../nope", "/work", "~", "$(id)"]
)
async def test_a_program_that_is_none_is_not_run_whatever_it_looks_like(shell, work, name):
    found = await shell.run([name, "x"], work, RequestContext())
    assert found.exit_status in (126, 127)
    assert found.output.startswith("prlimit: failed to execute")


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        ([], "without a program"),
        ([""], "without a program"),
        (["ls", "a\0b"], "zero byte"),
        (["ls", "\udc80"], "an argument is not text"),
        (["ls", *["y" * 2000] * 40], "65536 are allowed"),
    ],
    ids=["none", "empty", "zero byte", "not text", "huge"],
)
async def test_arguments_that_no_process_can_be_given_are_refused(work, argv, word):
    with pytest.raises(BadInput, match=word):
        check_arguments(argv, 65536)


async def test_a_cancelled_call_ends_the_command_at_once(shell, work):
    call = RequestContext()
    threading.Timer(0.3, call.cancel).start()
    started = time.monotonic()
    assert "cancelled" in (await shell.run(["sleep", "60"], work, call)).stopped
    assert time.monotonic() - started < 30


async def test_only_so_many_run_at_once_and_the_time_of_one_runs_once_it_begins(work):
    shell = await open_shell("timeout_s=4")
    most = shell.limits.numbers.sandbox.at_once
    started = time.monotonic()
    places = [work / str(number) for number in range(most + 1)]  # a session has one command at a time
    for place in places:
        place.mkdir()
    found = await asyncio.gather(*(shell.run(["sleep", "2.2"], place, RequestContext()) for place in places))
    assert [one.stopped for one in found] == [""] * (most + 1)
    assert time.monotonic() - started > 4.2


async def test_whoever_stops_waiting_leaves_nothing_running(shell, work):
    task = asyncio.get_running_loop().create_task(shell.run(["sleep", "3217"], work, RequestContext()))
    await asyncio.sleep(0.4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _processes_of(str(work)) == []


DAEMON = """
import asyncio, os, sys
from pathlib import Path
from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from router.channels.command_run import Shell

async def main():
    shell = Shell(load_config(environment={}).shell, SystemClock("UTC"), os.environ)
    await shell.probe()
    await shell.run(["sleep", "54.321"], Path(sys.argv[1]), RequestContext())

asyncio.run(main())
"""


async def test_a_daemon_that_is_killed_takes_the_command_with_it(shell, work):
    root = Path(__file__).parents[3]
    daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", DAEMON, str(work), cwd=root)
    try:
        await until(lambda: [line for _, line in _processes_of("54.321") if line.startswith(b"sleep")])
    finally:
        daemon.kill()
        await daemon.wait()
    await until(lambda: not _processes_of("54.321"))


# ---------------------------------------------------------------------------------------------------- without sandbox


async def test_without_bubblewrap_nothing_is_run_and_it_says_why(tmp_path, work):
    shell = Shell(load_config(environment={}).shell, SystemClock("UTC"), {"PATH": str(tmp_path)})
    refusal = await shell.probe()
    assert "bubblewrap (bwrap) is not installed" in refusal
    with pytest.raises(Unavailable, match="not installed"):
        await shell.run(["touch", "x"], work, RequestContext())
    assert list(work.iterdir()) == []


@pytest.fixture
def made_up():
    """A function that makes up a bubblewrap that says something, where a user without rights can start it too."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)

        def make(words):
            bodies = {"bwrap": f"echo {words} >&2; exit 1", "nice": 'shift 2; exec "$@"', "prlimit": "", "tar": ""}
            for name, body in bodies.items():
                (place / name).write_text(f"#!/bin/sh\n{body}\n")
                (place / name).chmod(0o755)
            return Shell(load_config(environment={}).shell, SystemClock("UTC"), {"PATH": folder})

        yield make


async def test_a_bubblewrap_that_does_not_work_refuses_with_its_words(made_up, work):
    shell = made_up("no namespaces here")
    assert "no namespaces here" in await shell.probe()
    with pytest.raises(Unavailable, match="no namespaces here"):
        await shell.run(["touch", "x"], work, RequestContext())


async def test_a_bubblewrap_that_is_too_old_is_said_to_be(made_up):
    assert "too old; 0.8 or newer is needed" in await made_up("bwrap: Unknown option --disable-userns").probe()


async def test_a_python_that_cannot_unpack_safely_refuses(monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter")
    shell = Shell(load_config(environment={}).shell, SystemClock("UTC"), os.environ)
    assert "give gaiad Python 3.11.4 or newer" in await shell.probe()


async def test_switched_off_it_refuses(work):
    off = load_config(environment={}, assignments=["shell.enabled=false"]).shell
    shell = Shell(off, SystemClock("UTC"), os.environ)
    await shell.probe()
    assert "shell.enabled" in shell.refusal


def _processes_of(text):
    """(uid, command line) of what runs with this text among its arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (place / "cmdline").read_bytes()
            if text.encode() in line:
                found.append((place.stat().st_uid, line))
    return found
