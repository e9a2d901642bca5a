"""The composition root: builds every part in order, says when it is ready, and stops them in reverse.

One stop event ends it: a signal or `POST /stop`. Intake opens last and closes first. What takes long to import is
imported where it is first needed, so that a refused start is quick.
"""

import asyncio
import contextlib
import gc
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from importlib.resources import as_file, files
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from msgspec import structs

import gaiad
from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, load_config, user_files
from gaiad.base.errors import ConfigError, Conflict
from gaiad.base.events import EventHub
from gaiad.base.home import Home, HomeLock, find_home, make_private_directory
from gaiad.base.logs import configure_logs, get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import OnFailure, Stopping, TaskGroup
from gaiad.daemon.set_up import SetUp, drain_vectors
from gaiad.intake.sockets import Notifier, adopt_sockets, raise_file_limit
from gaiad.store.home_databases import refuse_earlier

if TYPE_CHECKING:
    from gaiad.archive.archive import LocalArchive
    from gaiad.intake.auth import TokenFile
    from gaiad.intake.schedule import Schedule
    from gaiad.intake.watch import FolderWatch
    from gaiad.service.service import Service


_SWITCH_S = 0.0005
"""How long an ingest's thread may hold the interpreter while others wait: a turn changes threads at each of some thirty
reads and writes, and waits so long each time."""


def ready_text(socket: Path, url: str, packets: int, home: Path | None) -> str:
    """One line with socket, URL ("" for none) and packet count, then the commands, naming `home` when it is given.

    Without a packet nothing can be found: the commands are those that fill the memory.
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


_log = get_logger("gaiad.daemon")
FORCED = 130
_FIRST_SCAN_S = 0.2  # how long the ready line waits for what lies in the folders
_ENDING_S = 20.0  # what a stop may take besides the time for work under way: models, files, what is broken off
_SAMPLES_SCAN_S = 20.0  # and when it has just put the samples there
_GARBAGE_LOOKED_FOR = 20_000  # objects more than were let go: 2 to 4 MB


def serve(home: str | None = None, samples: bool = False, assignments: Sequence[str] = ()) -> int:
    """Run the daemon of `home` until it is stopped; the exit code. `assignments` are section.key=value settings.

    With `samples` the shipped packets are put into the inbox of a new home. Raises ConfigError, Conflict (a daemon runs
    there already; a socket or port is taken).
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a vector scan is memory-bound: more threads only cost memory
    gc.disable()  # importing and opening make no garbage to speak of
    os.umask(0o077)
    raise_file_limit()
    place = find_home(home, os.environ)
    make_private_directory(place.root)
    refuse_earlier(place.root)

    def load() -> Config:
        return load_config(user_files(place.root, os.environ), os.environ, assignments)

    config = load()
    lock = HomeLock(place)
    lock.take()
    try:
        return asyncio.run(Daemon(place, config, load, samples=samples, explicit_home=home is not None).run())
    except OSError as error:
        if error.filename is None:
            raise
        raise Conflict(f"{error.filename}: {error.strerror}; fix it or move it away, then start again") from error
    finally:
        gc.enable()
        lock.release()


class Daemon:
    """One daemon, run once. `explicit_home` only changes the commands it proposes."""

    def __init__(
        self, home: Home, config: Config, load: Callable[[], Config], *, samples: bool, explicit_home: bool
    ) -> None:
        self._home = home
        self._config = config
        self._load = load
        self._samples = samples
        self._explicit_home = explicit_home
        self._clock = SystemClock(config.user.timezone)
        self._hub = EventHub(self._clock)
        self._metrics = Metrics()
        self._stop = asyncio.Event()
        self._stopping = Stopping(self._clock, config.daemon.stop_grace_s)
        self._notifier = Notifier(os.environ, os.getpid())
        self._adopted = adopt_sockets(os.environ, os.getpid())
        self._set_up = SetUp(os.environ)

    async def run(self) -> int:
        """Start, say so, wait for the stop event, stop."""
        from gaiad.intake.schedule import Schedule

        configure_logs(self._config.daemon.log_level, self._config.daemon.log_format)
        sys.setswitchinterval(_SWITCH_S)
        self._catch_signals()
        async with AsyncExitStack() as stack, TaskGroup("heartbeat") as heartbeat:
            heartbeat.start("watchdog", self._feed_watchdog())
            schedule = Schedule(lambda topic, text: service.note(topic, text))
            service, archive = await self._open_memory(stack, schedule)
            tasks = await stack.enter_async_context(TaskGroup("daemon", _noting(service)))
            fresh = self._samples and copy_samples(self._home.inbox)
            watch = await self._open_folders(stack, service, archive, schedule)
            tasks.start("vectors", drain_vectors(archive, self._hub, service.note))
            if self._set_up.pending:
                tasks.start("set-up", self._set_up.follow(service.note, service.use_built_models))
            tokens = await self._open_listeners(stack, service)
            service.on_reload.append(lambda config: _apply(config, service, watch, tokens))
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, lambda: tasks.start("reload", self._reload(service))
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(watch.first_scan.wait(), _SAMPLES_SCAN_S if fresh else _FIRST_SCAN_S)
            self._say_ready(service, (await archive.counts())["packets"])
            schedule.start()
            gc.enable()
            gc.freeze()  # what lives as long as the daemon is not looked at again
            gc.set_threshold(_GARBAGE_LOOKED_FOR)  # searches make hardly any rings, and each look stops them
            await self._stop.wait()
            self._stopping.begin()
            self._notify("STOPPING=1", f"EXTEND_TIMEOUT_USEC={round((self._stopping.left_s() + _ENDING_S) * 1e6)}")
            _log.info("stopping")
            await stack.aclose()
        _log.info("stopped")
        return 0

    # --------------------------------------------------------------------------------------------------- start order

    async def _open_memory(self, stack: AsyncExitStack, schedule: "Schedule") -> "tuple[Service, LocalArchive]":
        """Audit and identity (one that is not trusted ends the start), jobs, models, archive, council, service."""
        from gaiad.daemon.assemble import StartContext, assemble

        ground = StartContext(
            stack=stack,
            home=self._home,
            config=self._config,
            load_config=self._load,
            clock=self._clock,
            hub=self._hub,
            metrics=self._metrics,
            schedule=schedule,
            stopping=self._stopping,
            set_up=self._set_up,
            request_stop=self._request_stop,
        )
        return await assemble(ground)

    async def _open_folders(
        self, stack: AsyncExitStack, service: "Service", archive: "LocalArchive", schedule: "Schedule"
    ) -> "FolderWatch":
        """The folder watch; the timer keeps it complete (it begins once all is ready)."""
        from gaiad.intake.watch import FolderWatch

        watch = FolderWatch(service, self._home)
        stack.push_async_callback(watch.stop)
        await watch.start()

        async def rescan() -> None:
            watch.rescan()

        async def sweep() -> None:
            for tenant in archive.tenants():
                await service.sweep(RequestContext(tenant=tenant, priority=Priority.BACKGROUND))

        schedule.every("rescan", self._config.intake.rescan_s, rescan)
        schedule.daily("sweep", self._config.schedule.sweep_at, self._config.user.timezone, sweep)
        stack.callback(schedule.stop)
        return watch

    async def _open_listeners(self, stack: AsyncExitStack, service: "Service") -> "TokenFile":
        """Both listeners; from here on the world can ask."""
        from gaiad.intake.auth import TokenFile
        from gaiad.intake.listeners import open_listeners

        tokens = TokenFile(self._home.token)
        tokens.load()
        socket, url = await open_listeners(stack, service, self._home.socket, tokens, self._adopted, self._stopping)
        service.condition.place = structs.replace(service.place, socket=socket, url=url)
        return tokens

    # ------------------------------------------------------------------------------------------------------- signals

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._request_stop)
        loop.add_signal_handler(signal.SIGINT, self._request_stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)  # until there is something to reload

    def _request_stop(self) -> None:
        """Stop in order; from now on a Ctrl-C does not wait, not even for a loop that is stuck."""
        if not self._stop.is_set():
            self._stop.set()
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, _force)

    async def _reload(self, service: "Service") -> None:
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            report = await service.reload()
            service.note("config", "")
            _log.info("reloaded", changed=report.changed, restart_needed=report.restart_needed)
        except ConfigError as error:
            service.note("config", f"settings not reloaded: {error.message}")
            _log.error("reload_refused", error=error.message, remedy="the last good settings stay in force")
        finally:
            self._notify("READY=1")

    # ---------------------------------------------------------------------------------------------------- background

    async def _feed_watchdog(self) -> None:
        """Tell systemd twice per interval that the loop turns; a stuck loop falls silent and is restarted."""
        while self._notifier.watchdog_s:
            self._notify("WATCHDOG=1")
            await asyncio.sleep(self._notifier.watchdog_s / 2)

    # ---------------------------------------------------------------------------------------------------------- ready

    def _notify(self, *assignments: str) -> None:
        try:
            self._notifier.send(*assignments)
        except OSError as error:
            _log.warning("notify_failed", error=str(error))

    def _say_ready(self, service: "Service", packets: int) -> None:
        place = service.place
        try:
            sys.stdout.write(
                ready_text(place.socket, place.url, packets, self._home.root if self._explicit_home else None)
            )
            sys.stdout.flush()
        except OSError as error:  # whoever started us does not read; serving goes on
            _log.warning("ready_line_not_written", error=str(error))
        self._notify("READY=1", f"STATUS={packets} packets")


def _noting(service: "Service") -> OnFailure:
    """Show a background task that ended by an error; its log line has the traceback."""

    def note(task: str, error: BaseException) -> None:
        service.note(task, f"{task} ended ({error!r}); restart gaiad and see the log")

    return note


def _apply(config: Config, service: "Service", watch: "FolderWatch", tokens: "TokenFile") -> None:
    """What a reload changes outside the service."""
    configure_logs(config.daemon.log_level, config.daemon.log_format)
    watch.rescan()
    try:
        tokens.load()
        service.note("token", "")
    except ConfigError as error:
        service.note("token", error.message)


def _force(_signal: int, _frame: FrameType | None) -> None:
    os._exit(FORCED)
