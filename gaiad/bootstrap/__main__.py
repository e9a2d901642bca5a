"""`python -I gaiad/bootstrap` sets up; with `run` it starts a daemon as soon as that can serve and finishes beside it,
other words going to `gaiad serve`; with `lock` it resolves requirements.lock, other words going to uv.
"""

import os
import subprocess
import sys
from pathlib import Path

# Python put this folder first on the path; the package is found from the root of the checkout.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from gaiad.bootstrap.children import SetupFailed, work_beside
from gaiad.bootstrap.registry import write_lock
from gaiad.bootstrap.state import DEFAULTS, PROGRESS, VENV, begin_progress, note_trouble
from gaiad.bootstrap.steps import finish, install, is_built, is_finished, set_up, wants_smollm2


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["lock", *options]:
                write_lock(options)
            case ["run", *options]:
                run_daemon(options)
            case ["beside", daemon]:
                work_beside(int(daemon))
                finish()
            case _:
                set_up()
    except SetupFailed as error:
        note_trouble(str(error))
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up stopped; run make again to continue", file=sys.stderr)
        return 130
    return 0


def run_daemon(options: list[str]) -> None:
    """Become a daemon; what is left of the set-up is done by a child of it. Raises SetupFailed."""
    install()
    environment = dict(os.environ)
    if not is_finished():
        begin_progress(built=is_built())
        environment["GAIAD_SETUP"] = str(PROGRESS)
        subprocess.Popen([sys.executable, "-I", str(Path(__file__).parent), "beside", str(os.getpid())])
    if wants_smollm2():
        environment["GAIAD_DEFAULTS"] = str(DEFAULTS)
    gaiad = str(VENV / "bin" / "gaiad")
    os.execve(gaiad, [gaiad, "serve", *options], environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
