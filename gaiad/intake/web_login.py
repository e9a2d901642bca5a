"""Who sits before the page: one-time links that become sessions, and the sessions that outlive a restart.

A link's code and a session's value are 256 random bits each. Codes live in memory for minutes; of sessions only their
SHA-256 and their end are kept, in one private file of the home. What travels in which header is the doors' business.
"""

import asyncio
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from gaiad.base.clock import Clock, from_epoch_ms, to_epoch_ms
from gaiad.base.errors import ConfigError, Unavailable
from gaiad.base.home import replace_file
from gaiad.intake.auth import Caller, read_private

SESSIONS_NAME = "web_sessions.json"
LINK_S = 300.0
SESSION_LIFE = timedelta(days=30)
_SECRET_BYTES = 32
_MOST_LINKS = 16  # links waiting to be used; the oldest gives way
_MOST_SESSIONS = 64  # every browser that ever logged in is one


class _Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    ends_at_ms: int
    uid: int | None  # whose browser it is; None where the system does not tell


class _Link(NamedTuple):
    until: float  # monotonic
    uid: int | None  # who alone may use it; None for anybody

    def admits(self, uid: int | None) -> bool:
        return self.uid is None or uid is None or uid == self.uid


class WebLogins:
    """The page's logins of one daemon. `load` once before use; everything else is for the event loop's thread.

    `cookie` is the name of the cookie that holds a session's value: two daemons on one machine do not share it.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.cookie = f"gaiad_web_{_hash(str(path))[:8]}"  # a browser shows its cookies to every port of a host
        self._path = path
        self._clock = clock
        self._links: dict[str, _Link] = {}  # by the hash of the code
        self._sessions: dict[str, _Session] = {}
        self._under_way: dict[str, set[asyncio.Task[object]]] = {}

    def load(self) -> str:
        """Read the sessions; what is wrong with their file, in words ("" for nothing): then everybody logs in again."""
        self._sessions = {}
        if not os.path.lexists(self._path):
            return ""
        try:
            text = read_private(self._path, "remove it and log in again with `gaiad web`")
            kept = msgspec.json.decode(text, type=list[_Session])
        except ConfigError as error:
            return error.message
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            return f"{self._path}: is damaged ({error}); remove it and log in again with `gaiad web`"
        self._sessions = {session.sha256: session for session in kept}
        return ""

    # ----------------------------------------------------------------------------------------------------- in

    def new_link(self, only_uid: int | None = None) -> str:
        """A code that lets one browser in, once, within LINK_S seconds; of `only_uid`, where the system tells uids."""
        code = secrets.token_urlsafe(_SECRET_BYTES)
        now = self._clock.monotonic()
        self._links = {known: link for known, link in self._links.items() if link.until > now}
        while len(self._links) >= _MOST_LINKS:
            del self._links[next(iter(self._links))]
        self._links[_hash(code)] = _Link(now + LINK_S, only_uid)
        return code

    def open_session(self, code: str, uid: int | None) -> str | None:
        """The value of a new session of the browser of `uid`; None for a code unknown, used, too old or another's.

        Raises Unavailable when the session cannot be written down; the code is used up all the same.
        """
        link = self._links.get(_hash(code))
        if link is None or self._clock.monotonic() >= link.until or not link.admits(uid):
            return None
        del self._links[_hash(code)]
        value = secrets.token_urlsafe(_SECRET_BYTES)
        key, ends_at_ms = _hash(value), to_epoch_ms(self._clock.now() + SESSION_LIFE)
        kept = [session for session in self._sessions.values() if not self._over(session)][-_MOST_SESSIONS + 1 :]
        sessions = {session.sha256: session for session in (*kept, _Session(key, ends_at_ms, uid))}
        self._write(sessions)
        self._sessions = sessions
        return value

    def caller(self, value: str, uid: int | None) -> Caller | None:
        """Who holds this session: the owner, on the page's channel. None for one unknown, ended or of another uid."""
        session = self._sessions.get(_hash(value)) if value else None
        if session is None or self._over(session) or session.uid != uid:
            return None
        name = f"the page (session {session.sha256[:8]})"
        return Caller(name=name, owner=True, in_person=True, channel="web_chat", session=session.sha256)

    def _over(self, session: _Session) -> bool:
        return self._clock.now() >= from_epoch_ms(session.ends_at_ms)

    # ---------------------------------------------------------------------------------------------------- out

    def close_session(self, key: str) -> None:
        """End one session and what is under way for it. Raises Unavailable when that cannot be written down."""
        self._sessions.pop(key, None)
        self._interrupt([key])
        self._write(self._sessions)

    def close_all(self) -> int:
        """End every session and link; how many browsers that logged out. Raises Unavailable as `close_session`."""
        closed = sum(not self._over(session) for session in self._sessions.values())
        self._links.clear()
        self._sessions.clear()
        self._interrupt(list(self._under_way))
        self._write({})
        return closed

    @contextmanager
    def under_way(self, caller: Caller) -> Iterator[None]:
        """Around a request: ends it with its session (a stream would outlive it otherwise)."""
        task = asyncio.current_task()
        if not caller.session or task is None:
            yield
            return
        tasks = self._under_way.setdefault(caller.session, set())
        tasks.add(task)
        timer = asyncio.get_running_loop().call_later(self._left_s(caller.session), task.cancel)
        try:
            yield
        finally:
            timer.cancel()
            tasks.discard(task)
            if not tasks:
                self._under_way.pop(caller.session, None)

    def _left_s(self, key: str) -> float:
        return (from_epoch_ms(self._sessions[key].ends_at_ms) - self._clock.now()).total_seconds()

    def _interrupt(self, keys: list[str]) -> None:
        for key in keys:
            for task in self._under_way.get(key, ()):
                if task is not asyncio.current_task():
                    task.cancel()

    def _write(self, sessions: Mapping[str, _Session]) -> None:
        try:
            replace_file(self._path, msgspec.json.encode(list(sessions.values())))
        except OSError as error:
            raise Unavailable(
                f"{self._path}: cannot be written ({error.strerror}); logins and logouts are not kept; fix it"
            ) from error


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "backslashreplace")).hexdigest()
