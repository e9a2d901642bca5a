"""What a start shows its user: the ready line, three commands to try, and sample packets to try them on."""

import os
import shlex
import shutil
import sys
from importlib.resources import as_file, files
from pathlib import Path

import gaiad


def ready_text(socket: Path, url: str, packets: int, home: Path | None) -> str:
    """One line with socket, URL ("" for none) and packet count, then the commands, naming `home` when it is given.

    Where there is no packet nothing can be found: the commands are those that fill the memory.
    """
    program = _program()
    option = f" --home {shlex.quote(str(home))}" if home is not None else ""
    where = f"socket {socket}, URL {url}" if url else f"socket {socket}, no URL"
    about = ['search{} "foundry bearings"', 'ask{} "What is the acoustic monitoring of foundry bearings about?"']
    tries = ["status{}", *(about if packets else ["ingest{} FOLDER", "chat{}"])]
    first = f"gaiad {gaiad.__version__} is ready: {where}, {packets} {'packet' if packets == 1 else 'packets'}"
    return "\n".join([first, *(f"  {program} {words.replace('{}', option)}" for words in tries), ""])


def _program() -> str:
    """How the reader can start the program that runs: its name when the PATH finds it, else its path."""
    running = Path(os.path.realpath(sys.argv[0]))
    found = shutil.which("gaiad")
    if running.name != "gaiad" or (found is not None and Path(os.path.realpath(found)) == running):
        return "gaiad"
    here = Path.cwd()
    return shlex.quote(str(running.relative_to(here) if running.is_relative_to(here) else running))


def copy_samples(inbox: Path) -> bool:
    """Put the shipped sample packets into `inbox` when it does not exist yet; whether it did not."""
    if inbox.exists():
        return False
    partial = inbox.with_name(f"{inbox.name}.new")
    shutil.rmtree(partial, ignore_errors=True)
    with as_file(files(gaiad).joinpath("samples")) as samples:
        shutil.copytree(samples, partial, ignore=shutil.ignore_patterns("__*", "*.py"))
    partial.chmod(0o700)
    partial.rename(inbox)
    return True
