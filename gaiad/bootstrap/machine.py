"""What this machine is: its processor, its compilers, and the command that installs what it lacks."""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from gaiad.bootstrap.children import SetupFailed
from gaiad.bootstrap.memory import digest

NO_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
CPU_NAMES = ("model name", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part", "isa")
X86 = ("x86_64", "AMD64", "amd64")
# What is missing -> package names, by the package manager's command.
REMEDIES = {
    "apt-get": ("apt install", {"compiler": "g++", "headers": "python3-dev", "venv": "python3-venv"}),
    "dnf": ("dnf install", {"compiler": "gcc-c++", "headers": "python3-devel", "venv": "python3-pip"}),
    "zypper": ("zypper install", {"compiler": "gcc-c++", "headers": "python3-devel", "venv": "python3-pip"}),
    "pacman": ("pacman -S", {"compiler": "gcc", "headers": "python", "venv": "python"}),
    "apk": ("apk add", {"compiler": "g++", "headers": "python3-dev linux-headers", "venv": "python3"}),
    "brew": ("brew install", {"compiler": "gcc", "headers": "python", "venv": "python"}),
}


def cpu_identity(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """A hash of the processor's model and features: a build made on another one must not be taken from the cache."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            first = list(iter(lambda: lines.readline().strip(), ""))
    except OSError:
        first = [f"model name: {platform.processor()}"]
    return digest(platform.machine(), *(line for line in first if line.partition(":")[0].strip() in CPU_NAMES))


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """The features the processor advertises; empty where the system does not tell."""
    try:
        found = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return set()
    return set(found[1].split()) if found else set()


def remedy(missing: str) -> str:
    """The command that installs what is missing here, as one line."""
    for manager, (command, packages) in REMEDIES.items():
        if shutil.which(manager):
            sudo = "" if manager == "brew" or os.geteuid() == 0 else "sudo "
            return f"run: {sudo}{command} {packages[missing]}"
    return f"install it with your package manager (Debian's name: {REMEDIES['apt-get'][1][missing]})"


def find_compiler(variable: str, names: tuple[str, ...], language: str, source: str) -> str:
    """A compiler that can compile and link `source`. Raises SetupFailed with the remedy."""
    chosen = os.environ.get(variable, "")
    for name in [chosen] if chosen else names:
        command = name.split()
        if command and shutil.which(command[0]) and compiles(command, language, source):
            return name
    tried = chosen or ", ".join(names)
    raise SetupFailed(f"no working {language} compiler (tried {tried}); {remedy('compiler')}, then run make again")


def compiles(command: list[str], language: str, source: str, *flags: str) -> bool:
    """Whether this compiler turns `source` into a program under these flags."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [*command, *flags, "-x", language, "-", "-o", str(Path(folder) / "out")],
            input=source.encode(),
            capture_output=True,
            check=False,
        )
    return ran.returncode == 0


def look_at_machine() -> str:
    """Find compilers and headers; the flags that keep AMX out, as far as both compilers know them."""
    c = find_compiler("CC", ("cc", "gcc", "clang"), "c", "int main(void) { return 0; }\n")
    cxx = find_compiler("CXX", ("c++", "g++", "clang++"), "c++", "#include <vector>\nint main() { return 0; }\n")
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        raise SetupFailed(f"Python.h of {sys.executable} is missing; {remedy('headers')}, then run make again")
    if platform.machine() not in X86:
        return ""
    main = "int main(void) { return 0; }\n"
    known = [f for f in NO_AMX if compiles(c.split(), "c", main, f) and compiles(cxx.split(), "c++", main, f)]
    return " ".join(known)
