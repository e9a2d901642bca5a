"""Approved commands against the limits of their sandbox; each is a real process under real bubblewrap."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from router.channels.sandbox import filter_program, find_programs, sandbox_arguments, shell_limits, system_view
from router.channels.work_folder import WorkFolder
from tests.makers.attacked import NOBODY, Row
from tests.makers.opened_up import open_up
from tests.makers.sandboxed import open_shell

_MIB = 16
_FULL = {
    "one file": "open('big', 'wb').write(bytes(40 << 20))",
    "an unlinked open file": """
file = open('gone', 'wb'); os.unlink('gone')
for _ in range(40): file.write(bytes(1 << 20)); file.flush()""",
    "files in deep folders": """
for number in range(40):
    for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)
    open('f', 'wb').write(bytes(1 << 20))""",
    "many files": "for number in range(40): open(str(number), 'wb').write(bytes(1 << 20))",
}
_HARMLESS_AFTERWARDS = {
    "folders a thousand deep": "for _ in range(1000): os.mkdir('d'); os.chdir('d')",
    "a path longer than any": "for _ in range(40): os.mkdir('d' * 250); os.chdir('d' * 250)",
    "30,000 files": "for number in range(30_000): open(str(number), 'w').close()",
    "modes that nobody may read": "os.mkdir('shut'); open('shut/x', 'w').write('x'); os.chmod('shut', 0)",
    "a link to the machine": "os.symlink('/etc', 'etc'); os.symlink('../../..', 'up')",
    "a named pipe": "os.mkfifo('pipe')",
    "the wrapper killed": "os.kill(os.getppid(), 9)",
    "a forged archive": "open('/proc/%d/fd/9' % os.getppid(), 'wb').write(b'x' * 100_000)",
}
# Of x86_64; the numbers of the other machine are in the same table of the program.
_CALLS = {
    "keyctl": (250, 0, 0xFFFFFFFD, 0),
    "keyctl read": (250, 11, 0xFFFFFFFD, 0),
    "add_key": (248, 0, 0, 0),
    "request_key": (249, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "userfaultfd": (323, 0, 0, 0),
    "ptrace": (101, 0, 0, 0),
    "process_vm_readv": (310, 1, 0, 0),
    "x32 keyctl": (0x40000000 + 250, 0, 0, 0),
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_keys_of_the_session_of_a_user_who_is_not_root(row: Row, tmp_path: Path) -> None:
    open_up(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o777)
    limits, source = shell_limits(load_config(environment={}).shell), "import ctypes; c = ctypes.CDLL(None).syscall\n"
    source += (
        "print([c(250, call, ring, 0, 0) for call in (0, 6, 11) for ring in range(-6, 0)], open('/proc/keys').read())"
    )
    programs = find_programs(os.environ["PATH"])
    reading, writing = os.pipe()
    os.write(writing, filter_program(os.uname().machine))
    os.close(writing)
    with Path(os.devnull).open("wb") as nowhere, tempfile.TemporaryFile() as status:
        inside = sandbox_arguments(
            programs, system_view(limits.numbers.sandbox), work, ["python3", "-c", source], limits, status.fileno(),
            reading, as_root=False,
        )  # fmt: skip
        other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
        found = subprocess.run(
            [*other, *inside], stdin=nowhere, capture_output=True, text=True, check=False, cwd="/", env={},
            pass_fds=(reading, status.fileno()),
        )  # fmt: skip
    os.close(reading)
    row.check(found.stdout.startswith(f"{[-1] * 18}"), f"{found.stdout} {found.stderr}")
    row.check(found.stdout.rstrip().endswith("]"), f"keys of the machine: {found.stdout}")


async def test_commands_that_fill_the_disk(row: Row, tmp_path: Path) -> None:
    shell = await open_shell("timeout_s=30", "memory_mib=200", f"work_mib={_MIB}")
    folder = WorkFolder(tmp_path, "local", "s")
    for number, (name, source) in enumerate(_FULL.items()):
        work = folder.prepare(str(number), shell.limits)
        found = await shell.run(["python3", "-c", f"import os\n{source}"], work, RequestContext())
        row.check(found.exit_status != 0, f"{name}: {found}")
        size = sum(file.lstat().st_blocks * 512 for file in work.rglob("*"))
        row.check(size <= _MIB << 20, f"{name}: {size} bytes were kept")


async def test_commands_that_fill_the_memory_with_empty_files(row: Row, tmp_path: Path) -> None:
    shell = await open_shell("timeout_s=60", "memory_mib=200", f"work_mib={_MIB}")
    for place in ("/work", "/tmp", "/dev/shm"):
        source = f"""
import os
os.chdir({place!r})
for number in range(2_000_000): os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))"""
        work = WorkFolder(tmp_path, "local", "s").prepare("1", shell.limits)
        found = await shell.run(["python3", "-c", source], work, RequestContext())
        row.check("20000 files at once" in found.stopped, f"{place}: {found}")


async def test_commands_that_leave_a_session_stuck(row: Row, tmp_path: Path) -> None:
    shell = await open_shell("timeout_s=60", "memory_mib=200", f"work_mib={_MIB}")
    for name, source in _HARMLESS_AFTERWARDS.items():
        folder = WorkFolder(tmp_path, "local", name)
        work = folder.prepare("1", shell.limits)
        await shell.run(["python3", "-c", f"import os\n{source}"], work, RequestContext())
        work = folder.prepare("2", shell.limits)
        found = await shell.run(["sh", "-c", "echo on > kept"], work, RequestContext())
        row.check((found.exit_status, found.stopped) == (0, "") and (work / "kept").exists(), f"{name}: {found}")
        inside = [path for path in work.rglob("*") if not path.resolve().is_relative_to(work.resolve())]
        row.check(not inside, f"{name}: {inside}")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
async def test_system_calls_no_command_needs(row: Row, tmp_path: Path) -> None:
    shell = await open_shell("timeout_s=20")
    for name, numbers in _CALLS.items():
        source = (
            f"import ctypes; c = ctypes.CDLL(None, use_errno=True); c.syscall(*{numbers}); print(ctypes.get_errno())"
        )
        work = WorkFolder(tmp_path, "local", "s").prepare("1", shell.limits)
        found = await shell.run(["python3", "-c", source], work, RequestContext())
        row.check(found.output.strip() == "1", f"{name}: {found}")
