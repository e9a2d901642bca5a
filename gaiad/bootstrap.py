"""Set-up of a checkout: from a bare Python and a C++ compiler to a working .venv, before anything of gaiad can run.

It stands alone: standard library only, run as a script by `make`, imported by nobody. Every step has a key, a hash of
all it depends on. A step runs when its key is not the one remembered in .setup/state.json, so a set-up that was killed
goes on where it stopped, and one with nothing to do costs a few milliseconds.

llama.cpp and hnswlib are compiled here, for this processor, and proved in a child process. A build that dies of an
illegal instruction (virtual machines advertise what they then trap) is followed by a more careful one.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETUP_VERSION = "1"
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
WORK = ROOT / ".setup"
STATE = WORK / "state.json"
LOCK_FILE = ROOT / "requirements.lock"
NATIVE = ("hnswlib", "llama-cpp-python")
STEPS = 6
HEARTBEAT_S = 15.0
LOG_TAIL_LINES = 25
NO_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
CPU_NAMES = ("model name", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part", "isa")
X86 = ("x86_64", "AMD64", "amd64")
DIED_OF_CODE = re.compile(
    r"SIG(ILL|SEGV|BUS|ABRT|FPE|TRAP)|illegal instruction|(signal |exit code -)(4|5|6|7|8|11)\b", re.IGNORECASE
)
NOT_CACHED = re.compile(r"network (connectivity )?(is|was) disabled|not found in the cache", re.IGNORECASE)
PROVE_HNSWLIB = (
    "import numpy, hnswlib; i = hnswlib.Index(space='ip', dim=384); i.init_index(max_elements=64);"
    "v = numpy.random.default_rng(0).random((64, 384), dtype=numpy.float32); i.add_items(v);"
    "assert i.knn_query(v[:1], k=5)[0].shape == (1, 5)"
)
LOCK_HEAD = """\
# Exact versions and hashes of what gaiad runs, tests and builds with. Written by `make lock`, installed by `make`.
# Not uv.lock: that format records the address of the registry it was made with, and each user may have another one.
"""

# What is missing -> package names, by the package manager's command.
REMEDIES = {
    "apt-get": ("apt install", {"compiler": "g++", "headers": "python3-dev", "venv": "python3-venv"}),
    "dnf": ("dnf install", {"compiler": "gcc-c++", "headers": "python3-devel", "venv": "python3-pip"}),
    "zypper": ("zypper install", {"compiler": "gcc-c++", "headers": "python3-devel", "venv": "python3-pip"}),
    "pacman": ("pacman -S", {"compiler": "gcc", "headers": "python", "venv": "python"}),
    "apk": ("apk add", {"compiler": "g++", "headers": "python3-dev linux-headers", "venv": "python3"}),
    "brew": ("brew install", {"compiler": "gcc", "headers": "python", "venv": "python"}),
}
TROUBLES = [
    (r"No space left on device", "the disk is full: free about 3 GB, then run make again"),
    (r"fatal error: Killed|signal: 9", "out of memory: run make again with CMAKE_BUILD_PARALLEL_LEVEL=1"),
    (r"[Hh]ash(es)? mismatch|DO NOT MATCH THE HASHES", "a download differs from requirements.lock: check your index"),
    (
        r"dns error|error sending request|Failed to fetch|Connection (refused|reset)|timed out|SSLError|certificate",
        "no registry could be reached: check the network, proxy or pip's index settings, then run make again",
    ),
]


class SetupFailed(Exception):
    """Set-up cannot go on; the message is one line with the remedy."""


@dataclass(frozen=True)
class Build:
    """One way to compile the native packages: a name for the screen and the variables the build sees."""

    name: str
    variables: Mapping[str, str]


# ------------------------------------------------------------------------------------------------- what is remembered


def digest(*parts: object) -> str:
    """A short stable hash of all parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def read_state() -> dict[str, Any]:
    """What earlier runs finished; nothing when the file is absent or was cut short."""
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def remember(state: dict[str, Any], **values: object) -> None:
    """Add to the state and replace the file in one move, so that a kill leaves the old or the new one."""
    state.update(values)
    WORK.mkdir(exist_ok=True)
    fresh = STATE.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1), encoding="utf-8")
    fresh.replace(STATE)


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


def models_place(environment: Mapping[str, str] = os.environ) -> str:
    """What decides where the embedding model lies (gaiad.models.provision knows the rest); made once for each place."""
    names = ("GAIAD_MODELS", "XDG_DATA_HOME", "HOME")
    return next((f"{name}={environment[name]}" for name in names if environment.get(name)), "")


# ------------------------------------------------------------------------------------------------- screen and children


def say(text: str) -> None:
    print(text, flush=True)


def spent(since: float) -> str:
    seconds = time.monotonic() - since
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


@contextlib.contextmanager
def step(number: int, what: str) -> Iterator[None]:
    """Say what begins and how long it took."""
    say(f"[{number}/{STEPS}] {what}")
    began = time.monotonic()
    yield
    say(f"[{number}/{STEPS}] done in {spent(began)}")


def run(what: str, command: list[str], log: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a child with its output in .setup/`log`, showing that it is alive; the output. Raises SetupFailed."""
    code, output = watch(what, command, log, environment)
    return succeed(what, code, output, log)


def succeed(what: str, code: int, output: str, log: str) -> str:
    """The output of a child that ended well; else show the end of its log and raise SetupFailed with the remedy."""
    if code:
        shown = [line for line in output.splitlines() if line.strip() and not line.startswith(("DEBUG", "TRACE"))]
        say("\n".join(f"      | {line}" for line in shown[-LOG_TAIL_LINES:]))
        advice = next(
            (text for sign, text in TROUBLES if re.search(sign, output)), "finished steps are kept, run make again"
        )
        raise SetupFailed(f"{what} failed ({ended(code)}); {advice} (whole log: {WORK.name}/{log})")
    return output


def watch(what: str, command: list[str], log: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a child with its output in .setup/`log`; its exit code and output. A sign of life every few seconds."""
    path = WORK / log
    began = shown = time.monotonic()
    with path.open("wb") as sink:
        child = subprocess.Popen(
            command,
            cwd=WORK,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            pass_fds=_held,
        )
        try:
            while True:
                try:
                    return child.wait(timeout=0.5), path.read_text(encoding="utf-8", errors="replace")
                except subprocess.TimeoutExpired:
                    if time.monotonic() - shown >= HEARTBEAT_S:
                        shown = time.monotonic()
                        say(f"      {what}: {progress(path)}{spent(began)}")
        except BaseException:
            child.terminate()
            child.wait()
            raise


def progress(log: Path) -> str:
    """How far a compilation is, read from the end of its log ("37 of 140 files, "), or nothing."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - 65536))
        found = re.findall(rb"\[(\d+)/(\d+)\]", source.read())
    return f"{int(found[-1][0])} of {int(found[-1][1])} files, " if found else ""


def ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


_held: list[int] = []


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One set-up at a time. Children hold the lock too: an orphan of a killed set-up is waited for, not raced."""
    WORK.mkdir(exist_ok=True)
    with (WORK / "lock").open("w") as handle:
        began = time.monotonic()
        shown = 0.0
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - shown >= HEARTBEAT_S:
                    shown = time.monotonic()
                    say(f"another set-up of this checkout is still running, waiting for it: {spent(began)}")
                time.sleep(0.3)
        os.set_inheritable(handle.fileno(), True)
        _held.append(handle.fileno())
        try:
            yield
        finally:
            _held.clear()


# ------------------------------------------------------------------------------------------------- the machine


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


def ladder(machine: str, advertised: set[str], no_amx: str) -> list[Build]:
    """The builds to try, fastest first: for this processor without AMX, for any with AVX2, for any."""
    flags = {"CFLAGS": no_amx, "CXXFLAGS": no_amx} if no_amx else {}
    native = Build("for this processor", {**flags, "CMAKE_ARGS": cmake("NATIVE=ON")})
    plain = {"HNSWLIB_NO_NATIVE": "1"}
    if machine not in X86:
        return [native, Build("for any such processor", {**plain, "CMAKE_ARGS": cmake("NATIVE=OFF")})]
    avx2 = cmake("NATIVE=OFF", "SSE42=ON", "AVX=ON", "AVX2=ON", "FMA=ON", "F16C=ON", "BMI2=OFF")
    least = cmake("NATIVE=OFF", "SSE42=OFF", "AVX=OFF", "AVX2=OFF", "FMA=OFF", "F16C=OFF", "BMI2=OFF")
    builds = [native]
    if {"avx2", "fma", "f16c"} <= advertised:
        builds.append(Build("with AVX2 and no more", {**plain, "CMAKE_ARGS": avx2}))
    return [*builds, Build("for any x86-64 processor", {**plain, "CMAKE_ARGS": least})]


def cmake(*options: str) -> str:
    return " ".join(["-DLLAVA_BUILD=OFF", *(f"-DGGML_{option}" for option in options)])


def uv_settings(build: Build, cpu: str) -> str:
    """A uv.toml with the build's variables. They are part of uv's cache key, plain environment variables are not."""
    variables = {**build.variables, "GAIAD_CPU": cpu}
    inside = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
    return "[extra-build-variables]\n" + "".join(f"{package} = {{ {inside} }}\n" for package in NATIVE)


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


# ------------------------------------------------------------------------------------------------- the steps


def make_venv(uv_lines: str) -> None:
    """A fresh .venv with the pinned uv in it, checked by its hash."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    shutil.rmtree(VENV, ignore_errors=True)
    code, output = watch("making .venv", [base, "-m", "venv", str(VENV)], "venv.log")
    if code:
        raise SetupFailed(
            f"python -m venv failed ({output.strip().splitlines()[-1:]}); {remedy('venv')}, then run make again"
        )
    (WORK / "uv.txt").write_text(uv_lines, encoding="utf-8")
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    run("fetching uv", [*pip, "--no-deps", "--require-hashes", "-r", str(WORK / "uv.txt")], "uv.log")


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


def build_native(entries: list[str], build: Build, cpu: str) -> None:
    """Compile, or take from uv's cache what was compiled for this processor in this way.

    The cache is asked first without the network: a registry that cannot confirm that an archive is unchanged makes uv
    compile it again.
    """
    (WORK / "uv.toml").write_text(uv_settings(build, cpu), encoding="utf-8")
    (WORK / "native.txt").write_text("".join(entries), encoding="utf-8")
    run("removing the old build", [str(UV), "pip", "uninstall", "--python", str(PYTHON), *NATIVE], "uninstall.log")
    command = install_command("--verbose", "--require-hashes", "-r", str(WORK / "native.txt"))
    code, output = watch("compiling", [*command, "--offline"], "native.log", uv_environment())
    if code and NOT_CACHED.search(output):
        code, output = watch("compiling", command, "native.log", uv_environment())
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
        f"no build of llama.cpp runs on this machine; see {WORK.name}/native.log; `make clean` to try them all again"
    )


def set_up() -> None:
    """All steps whose key changed. Raises SetupFailed."""
    lock = LOCK_FILE.read_text(encoding="utf-8")
    cpu = cpu_identity()
    venv = digest(SETUP_VERSION, ROOT, sys.version_info[:3], lock_entries(lock)["uv"])
    keys = {"venv": venv, "packages": digest(venv, lock)}
    keys["project"] = digest(venv, (ROOT / "pyproject.toml").read_bytes())
    compilers = [os.environ.get("CC"), os.environ.get("CXX")]
    keys["native"] = digest(venv, cpu, *compilers, *(lock_entries(lock)[name] for name in NATIVE))
    keys["model"] = digest(venv, models_place())
    if is_current(read_state(), keys):
        return
    with alone():
        state = read_state()
        if not is_current(state, keys):
            run_steps(state, keys, lock_entries(lock), cpu)


def is_current(state: Mapping[str, Any], keys: Mapping[str, str]) -> bool:
    return (VENV / "bin" / "gaiad").exists() and all(state.get(name) == key for name, key in keys.items())


def run_steps(state: dict[str, Any], keys: Mapping[str, str], entries: dict[str, str], cpu: str) -> None:
    began = time.monotonic()
    native = [entries.pop(name) for name in NATIVE]
    say("setting up gaiad in .venv; it may be stopped at any time, `make` goes on where it was")

    def once(number: int, name: str, what: str, work: Callable[[], None]) -> None:
        if state.get(name) != keys[name]:
            with step(number, what):
                work()
            remember(state, **{name: keys[name]})

    with step(1, f"looking at the machine (Python {platform.python_version()}, {platform.machine()})"):
        builds = ladder(platform.machine(), cpu_flags(), look_at_machine())
    if not UV.exists() or not PYTHON.exists():
        remember(state, venv="")
    once(2, "venv", "making .venv", lambda: make_venv(entries["uv"]))
    if not (VENV / "bin" / "gaiad").exists():
        remember(state, packages="", project="", native="")
    once(3, "packages", f"installing {len(entries)} packages", lambda: install_packages(list(entries.values())))
    once(4, "project", "installing gaiad itself", install_project)
    native_key = keys["native"]
    once(5, "native", "building llama.cpp and hnswlib", lambda: climb_down(state, native_key, native, builds, cpu))
    try:
        once(6, "model", "making the embedding model", make_model)
    except SetupFailed as error:
        say(f"      going on without it, search is lexical until the next `make`: {error}")
    say(f"set-up finished in {spent(began)}")


def install_packages(entries: list[str]) -> None:
    requirements = WORK / "packages.txt"
    requirements.write_text("".join(entries), encoding="utf-8")
    command = install_command("--require-hashes", "-r", str(requirements))
    run("installing packages", command, "packages.log", uv_environment())


def install_project() -> None:
    command = install_command("--no-build-isolation", "--editable", str(ROOT))
    run("installing gaiad", command, "project.log", uv_environment())


def make_model() -> None:
    run("making the embedding model", [str(PYTHON), "-m", "gaiad.models.provision"], "model.log")


def write_lock() -> None:
    """Resolve pyproject.toml anew, for all platforms, keeping the pins that still fit; `make lock`."""
    fresh = WORK / "requirements.lock"
    if LOCK_FILE.is_file():
        shutil.copyfile(LOCK_FILE, fresh)
    wanted = ["pyproject.toml", "--group", "pyproject.toml:dev", "--universal", "--python-version", "3.11"]
    shape = ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate", "--directory", str(ROOT)]
    command = [str(UV), "pip", "compile", *wanted, *shape, *sys.argv[2:], "--output-file", str(fresh)]
    run("resolving", command, "lock.log", uv_environment())
    LOCK_FILE.write_text(LOCK_HEAD + fresh.read_text(encoding="utf-8"), encoding="utf-8")
    say(f"wrote {LOCK_FILE.name}: {len(lock_entries(LOCK_FILE.read_text(encoding='utf-8')))} packages")


def main() -> int:
    try:
        if sys.argv[1:2] == ["lock"]:
            write_lock()
        else:
            set_up()
    except SetupFailed as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up stopped; run make again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
