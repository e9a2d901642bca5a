"""A first start that is killed at any moment leaves a home that the next one takes: key, identity and audit fit."""

import subprocess
import sys
from pathlib import Path

KILLS = 25
# In a process of its own, which forks: a killed child has everything imported and so dies within the work itself.
PROGRAM = """
import os, random, signal, sys, time
from contextlib import ExitStack
from pathlib import Path
import cryptography.hazmat.primitives.asymmetric.ed25519
from tests.makers.audits import open_audit
from gaiad.store.home_databases import HomeDatabases
from gaiad.base.clock import SystemClock
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.audit import verify_home
from gaiad.identity.keys import owner_folder
from gaiad.identity.trust import open_identity

def start(place):
    audit = open_audit(place / "home", SystemClock())
    open_identity(place / "home", owner_folder({"XDG_CONFIG_HOME": str(place / "config")}), audit)
    trouble = audit.trouble
    audit.close()
    return trouble

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            said = work()
            sys.stderr.write(said)
            code = 1 if said else 0
        except BaseException as error:
            sys.stderr.write(f"{error!r}\\n")
            code = 2
        os._exit(code)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

root, kills = Path(sys.argv[1]), int(sys.argv[2])
began = time.monotonic()
assert ended(child(lambda: start(root / "whole"))) == 0
whole = time.monotonic() - began
moments = random.Random(7)
codes = []
for number in range(kills):
    place = root / str(number)
    killed = child(lambda: start(place))
    time.sleep(moments.random() * whole)
    os.kill(killed, signal.SIGKILL)
    codes.append(ended(killed))
    for _ in range(2):
        assert ended(child(lambda: start(place))) == 0, f"start after kill {number}"
    verdict = verify_home(place / "home")
    assert verdict.ok and 1 <= verdict.rows <= 2, verdict
print()  # a killed child may have left half a line
print(*codes)
"""


def test_a_first_start_killed_at_any_moment_is_taken_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(KILLS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    codes = [int(code) for code in ended.stdout.splitlines()[-1].split()]
    assert len(codes) == KILLS
    assert codes.count(-9) > KILLS // 4
