"""The set-up that goes on beside a daemon which `make run` started before llama.cpp was built.

The set-up writes how far it is to a file, which GAIAD_SETUP names. Until it is finished models wait, search goes by
words, answers are quotes, and status says why.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gaiad.base.config import EXTRACTIVE, Config, assign
from gaiad.base.errors import Unavailable
from gaiad.base.events import EventHub
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.store.database import StorageFailed, StorageFull

if TYPE_CHECKING:
    from gaiad.archive.archive import LocalArchive

VARIABLE = "GAIAD_SETUP"
WAITING = "waits for llama.cpp, which is being built"
_LOOK_S = 1.0
_log = get_logger("gaiad.daemon")


class SetUpProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What the set-up writes: the step it does and its per cent when known, what failed so far, by which process.

    `built` says whether llama.cpp was there before it began.
    """

    doing: str = ""
    percent: int | None = None
    trouble: str = ""
    built: bool = False
    finished: bool = False
    pid: int = 0


class SetUp:
    """`waits` is why models cannot be loaded yet, "" when they can; `look_s` seconds lie between two looks."""

    def __init__(self, environment: Mapping[str, str], look_s: float = _LOOK_S) -> None:
        self._path = Path(environment[VARIABLE]) if environment.get(VARIABLE) else None
        self._look_s = look_s
        found = self._read() if self._path else SetUpProgress(built=True, finished=True)
        self.pending = not found.finished
        self.waits = WAITING if self.pending and not found.built else ""

    async def follow(self, note: Callable[[str, str], None], begin: Callable[[], Awaitable[None]]) -> None:
        """Note each step under `set-up`; `begin` what waits once it is finished, and keep what failed in the notes."""
        while not (found := await asyncio.to_thread(self._read)).finished:
            note("set-up", in_words(found))
            await asyncio.sleep(self._look_s)
        self.pending = False
        _log.info("set_up_finished", trouble=found.trouble)
        await begin()
        note("set-up", found.trouble)

    def _read(self) -> SetUpProgress:
        assert self._path is not None
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SetUpProgress)
        except (OSError, msgspec.DecodeError) as error:
            return SetUpProgress(trouble=f"{self._path} cannot be read ({error}); run `make`")


def without_llama(config: Config) -> Config:
    """The settings with quotes for the roles whose models need llama.cpp."""
    structs, models = msgspec.structs, assign(config.roles, config.models.known)[1]
    quoting = {role: EXTRACTIVE for role, name in structs.asdict(config.roles).items() if models[name].kind == "gguf"}
    known = {name: model for name, model in config.models.known.items() if model.kind != "gguf"}
    return structs.replace(
        config, roles=structs.replace(config.roles, **quoting), models=structs.replace(config.models, known=known)
    )


def in_words(found: SetUpProgress) -> str:
    """A line for status."""
    if found.pid and not _alive(found.pid):
        return f"set-up failed: {found.trouble or 'it ended early; run `make` to continue'}"
    percent = "" if found.percent is None else f", {found.percent} %"
    until = "" if found.built else "search is by words and answers are quotes until then"
    return "; ".join(part for part in (f"{found.doing}{percent}", until, found.trouble) if part)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_vectors_log = get_logger("gaiad.vectors")
_IDLE_LOOK_S = 5.0  # a look at the queue without being woken
_TROUBLE_PAUSE_S = 10.0


async def drain_vectors(archive: "LocalArchive", hub: EventHub, note: Callable[[str, str], None]) -> None:
    """Embed what waits, a slice at a time, for ever; any event wakes an idle queue.

    A person's query goes first, by its priority in the embedder. Trouble is noted under `vectors` and tried again.
    """
    call = RequestContext(priority=Priority.BACKGROUND)
    while True:
        seen = hub.last_id
        try:
            done = await archive.drain_vectors(call)
            note("vectors", "")
        except Unavailable as error:  # a worker that restarts shows that in its own state
            if isinstance(error, StorageFull | StorageFailed):
                note("vectors", f"vectors cannot be built: {error.message}")
            await asyncio.sleep(max(1.0, error.retry_after_s))
            continue
        except Exception as error:  # noqa: BLE001  (shown in status and logged; the queue stays and is tried again)
            _vectors_log.error("vectors_failed", exc_info=error)
            note("vectors", f"vectors cannot be built: {error}; trying again")
            await asyncio.sleep(_TROUBLE_PAUSE_S)
            continue
        if not done:
            await _anything_new(hub, seen)


async def _anything_new(hub: EventHub, after_id: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_IDLE_LOOK_S):
            async for _ in hub.follow(after_id):
                return
