"""llama.cpp and hnswlib, compiled for this processor, proved in a child, and built more carefully if they die.

And what this machine is: its processor, its compilers, and the command that installs what it lacks.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaiad.bootstrap.children import SetupFailed, ended, run, say, succeed, watch
from gaiad.bootstrap.registry import install_command, uv_environment
from gaiad.bootstrap.state import PYTHON, UV, WORK, digest, remember

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


NATIVE = ("hnswlib", "llama-cpp-python")
DIED_OF_CODE = re.compile(
    r"SIG(ILL|SEGV|BUS|ABRT|FPE|TRAP)|illegal instruction|(signal |exit code -)(4|5|6|7|8|11)\b", re.IGNORECASE
)
NOT_CACHED = re.compile(r"network (connectivity )?(is|was) disabled|not found in the cache", re.IGNORECASE)
ONLY_LINKED = Path(__file__).with_name("llama.cmake")
PROVE_HNSWLIB = (
    "import numpy, hnswlib; i = hnswlib.Index(space='ip', dim=384); i.init_index(max_elements=64);"
    "v = numpy.random.default_rng(0).random((64, 384), dtype=numpy.float32); i.add_items(v);"
    "assert i.knn_query(v[:1], k=5)[0].shape == (1, 5)"
)


@dataclass(frozen=True)
class Build:
    """One way to compile the native packages: a name for the screen, options of ggml, and compiler flags."""

    name: str
    options: tuple[str, ...]
    flags: str = ""
    native: bool = False


def ladder(machine: str, advertised: set[str], no_amx: str) -> list[Build]:
    """The builds to try, fastest first: for this processor without AMX, for any with AVX2, for any."""
    native = Build("for this processor", ("NATIVE=ON",), no_amx, native=True)
    if machine not in X86:
        return [native, Build("for any such processor", ("NATIVE=OFF",))]
    avx2 = ("NATIVE=OFF", "SSE42=ON", "AVX=ON", "AVX2=ON", "FMA=ON", "F16C=ON", "BMI2=OFF")
    least = ("NATIVE=OFF", "SSE42=OFF", "AVX=OFF", "AVX2=OFF", "FMA=OFF", "F16C=OFF", "BMI2=OFF")
    builds = [native]
    if {"avx2", "fma", "f16c"} <= advertised:
        builds.append(Build("with AVX2 and no more", avx2))
    return [*builds, Build("for any x86-64 processor", least)]


def build_settings(build: Build, cpu: str) -> list[str]:
    """uv's options for the build. Settings of a package are part of uv's cache key, variables are not."""
    defines = ["LLAVA_BUILD=OFF", *(f"GGML_{option}" for option in build.options), f"GAIAD_CPU={cpu}"]
    settings = [f"llama-cpp-python:cmake.define.{define}" for define in defines]
    settings.append(f"hnswlib:gaiad-cpu={cpu}{'' if build.native else '-any'}")
    return [word for setting in settings for word in ("--config-settings-package", setting)]


def build_environment(build: Build, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a build sees: those of `build_settings` that only the environment can carry."""
    arguments = [environment.get("CMAKE_ARGS", ""), shlex.quote(f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={ONLY_LINKED}")]
    flags = {name: f"{environment.get(name, '')} {build.flags}".strip() for name in ("CFLAGS", "CXXFLAGS")}
    plain = {} if build.native else {"HNSWLIB_NO_NATIVE": "1"}
    return {"CMAKE_ARGS": " ".join(arguments).strip(), **(flags if build.flags else {}), **plain}


def build_native(entries: list[str], build: Build, cpu: str) -> None:
    """Compile, or take from uv's cache what was compiled for this processor in this way.

    The cache is asked first without the network: a registry that cannot confirm that an archive is unchanged makes uv
    compile it again.
    """
    (WORK / "native.txt").write_text("".join(entries), encoding="utf-8")
    run("removing the old build", [str(UV), "pip", "uninstall", "--python", str(PYTHON), *NATIVE], "uninstall.log")
    command = install_command(
        "--verbose", "--require-hashes", *build_settings(build, cpu), "-r", str(WORK / "native.txt")
    )
    environment = uv_environment() | build_environment(build)
    code, output = watch("compiling", [*command, "--offline"], "native.log", environment)
    if code and NOT_CACHED.search(output):
        code, output = watch("compiling", command, "native.log", environment)
    succeed("compiling", code, output, "native.log")


def proof() -> str:
    """Run the compiled code in children; "" when it works, else why it died. Raises SetupFailed on other failures."""
    for what, command in {
        "hnswlib": [str(PYTHON), "-c", PROVE_HNSWLIB],
        "llama.cpp": [str(PYTHON), "-m", "gaiad.models.prove"],
    }.items():
        code, output = watch(f"proving {what}", command, f"prove-{what}.log")
        said = " ".join(output.split()[-40:])
        if code < 0 or (code and DIED_OF_CODE.search(output)):
            return f"{what}: {said or ended(code)}"
        if code:
            raise SetupFailed(f"{what} was built but does not work: {said}; see {WORK.name}/prove-{what}.log")
    return ""


def climb_down(state: dict[str, Any], key: str, entries: list[str], builds: list[Build], cpu: str) -> None:
    """Build and prove, going on to the next build when this one dies; which one it was is remembered."""
    rung = state.get("rung", 0) if state.get("rung_key") == key else 0
    for number in range(rung, len(builds)):
        say(f"      build {builds[number].name}; the first time this takes several minutes")
        build_native(entries, builds[number], cpu)
        died = proof()
        if not died:
            say(f"      proved: built {builds[number].name}")
            return
        say(f"      this build does not run here ({died})")
        remember(state, rung=number + 1, rung_key=key)
    raise SetupFailed(
        f"no build of llama.cpp runs on this machine; see {WORK.name}/native.log; `make clean` resets the builds to try"
    )
