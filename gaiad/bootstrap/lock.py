"""requirements.lock: what stands in it, and how it is written anew."""

import re
import shutil
from collections.abc import Sequence

from gaiad.bootstrap.children import run, say
from gaiad.bootstrap.places import LOCK_FILE, ROOT, UV, WORK
from gaiad.bootstrap.registry import uv_environment

LOCK_HEAD = """\
# Exact versions and hashes of what gaiad runs, tests and builds with. Written by `make lock`, installed by `make`.
# Not uv.lock: that format records the address of the registry it was made with, and each user may have another one.
"""


def lock_entries(lock: str) -> dict[str, str]:
    """Package name -> its lines in the lock (several where versions differ by Python)."""
    entries: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if line[:1].isalnum():
            name = re.split(r"[=<>\[ ;]", line, maxsplit=1)[0]
            entries[name] = entries.get(name, "") + line
        elif name and not line.lstrip().startswith("#"):
            entries[name] += line
    return entries


def write_lock(options: Sequence[str]) -> None:
    """Resolve pyproject.toml anew, for all platforms, keeping the pins that still fit; `options` go to uv."""
    fresh = WORK / "requirements.lock"
    if LOCK_FILE.is_file():
        shutil.copyfile(LOCK_FILE, fresh)
    wanted = ["pyproject.toml", "--group", "pyproject.toml:dev", "--universal", "--python-version", "3.11"]
    shape = ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate", "--directory", str(ROOT)]
    command = [str(UV), "pip", "compile", *wanted, *shape, *options, "--output-file", str(fresh)]
    run("resolving", command, "lock.log", uv_environment())
    LOCK_FILE.write_text(LOCK_HEAD + fresh.read_text(encoding="utf-8"), encoding="utf-8")
    say(f"wrote {LOCK_FILE.name}: {len(lock_entries(LOCK_FILE.read_text(encoding='utf-8')))} packages")
