"""uv, which fetches and installs, with the index and proxy settings the user has given pip; and requirements.lock."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gaiad.bootstrap.children import run, say
from gaiad.bootstrap.state import LOCK_FILE, PYTHON, ROOT, UV, WORK


def index_settings(pip_list: str, environment: Mapping[str, str], uv_files: list[Path]) -> dict[str, str]:
    """pip's index, proxy and certificate settings as uv's variables, for uv does not read pip.conf.

    `pip_list` is the output of `pip config list`. What the user set for uv itself, by variable or file, stays.
    Indexes on this machine's disk are left out: they are a pip habit, and the lock's hashes come from an index.
    """
    found: dict[str, str] = {}
    lines = [line.partition("=") for line in pip_list.splitlines()]
    for place in ("global.", "install.", ":env:."):
        found |= {name.removeprefix(place): value.strip("'\"") for name, _, value in lines if name.startswith(place)}
    wanted = {
        "SSL_CERT_FILE": found.get("cert", ""),
        "UV_HTTP_TIMEOUT": found.get("default-timeout", found.get("timeout", "")),
    }
    wanted["ALL_PROXY"] = found.get("proxy", "")
    wanted["UV_INSECURE_HOST"] = found.get("trusted-host", "").replace("\\n", " ").strip()
    own = any(name in environment for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL"))
    own = own or any("index" in path.read_text(encoding="utf-8") for path in uv_files if path.is_file())
    if not own:
        extra = found.get("extra-index-url", "").replace("\\n", " ").split()
        wanted["UV_DEFAULT_INDEX"] = found.get("index-url", "")
        wanted["UV_INDEX"] = " ".join(url for url in extra if not url.startswith("file:"))
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match" if wanted["UV_INDEX"] else ""
    return {name: value for name, value in wanted.items() if value and name not in environment}


def uv_environment() -> dict[str, str]:
    """For every uv call: the user's index settings, this machine's Python, as many compilers as memory bears."""
    listed = subprocess.run([str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    settings = index_settings(listed.stdout, os.environ, [Path(home) / "uv" / "uv.toml", Path("/etc/uv/uv.toml")])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    jobs = max(1, min(os.cpu_count() or 1, memory // 2**30))
    settings.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(jobs)))
    return settings | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}


def install_command(*arguments: str) -> list[str]:
    return [str(UV), "pip", "install", "--python", str(PYTHON), "--no-deps", *arguments]


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
    """Resolve pyproject.toml again, for all platforms, keeping the pins that still fit; `options` go to uv."""
    fresh = WORK / "requirements.lock"
    if LOCK_FILE.is_file():
        shutil.copyfile(LOCK_FILE, fresh)
    wanted = ["pyproject.toml", "--group", "pyproject.toml:dev", "--universal", "--python-version", "3.11"]
    shape = ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate", "--directory", str(ROOT)]
    command = [str(UV), "pip", "compile", *wanted, *shape, *options, "--output-file", str(fresh)]
    run("resolving", command, "lock.log", uv_environment())
    LOCK_FILE.write_text(LOCK_HEAD + fresh.read_text(encoding="utf-8"), encoding="utf-8")
    say(f"wrote {LOCK_FILE.name}: {len(lock_entries(LOCK_FILE.read_text(encoding='utf-8')))} packages")
