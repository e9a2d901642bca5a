"""Downloads one file over HTTP into its .part file and resumes where an earlier try stopped. httpx2 lives here.

A range is asked for with If-Range, so another version of the file starts from the beginning; with a known SHA-256 the
version does not matter, because the hash decides.
"""

import contextlib
import fcntl
import hashlib
import ipaddress
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from gaiad.base.errors import (
    BadInput,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    GaiadError,
    NotFound,
    Unauthorized,
    Unavailable,
)
from gaiad.models.gguf.gguf_header import MAGIC
from gaiad.models.pulling.source import identity, shown

RESERVE_BYTES = 64 << 20
_PROGRESS_BYTES = 1 << 20
_MAX_REDIRECTS = 10
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<total>\d+|\*)")
_T = TypeVar("_T")


class Listener(Protocol):
    """Who watches a pull: lines for a person, and bytes done of a file (`total` is 0 while it is unknown)."""

    def say(self, line: str) -> None: ...

    def show(self, label: str, done: int, total: int) -> None: ...


class PullFailed(GaiadError):
    """What was pulled is not what it should be; the message says what is wrong and what to do."""

    code = "pull_failed"


class Tries(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of silence that end a try, tries in a row that brought nothing, and the waits between them."""

    connect_s: float = 10.0
    silence_s: float = 30.0
    count: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """A file to download: `headers` (a login) go to the address' own host only; hash and size as promised by a hub.

    `hint` is the remedy when the server refuses.
    """

    target: str
    url: str
    headers: dict[str, str] = {}
    sha256: str = ""
    size: int = -1
    hint: str = "pull from a hub by its name, owner/repo; else fetch it with your browser and pull the file"


class Transient(Exception):
    """Worth another try; `error` is what is raised when there is none. `wait_s` is what the server asked for."""

    def __init__(self, error: GaiadError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


def persist(work: Callable[[], _T], tries: Tries, listener: Listener, progress: Callable[[], int] = lambda: 0) -> _T:
    """The result of `work`, tried again while it raises Transient; bytes of `progress` start the count again."""
    failed = 0
    while True:
        before = progress()
        try:
            return work()
        except Transient as trouble:
            failed = 1 if progress() - before >= _PROGRESS_BYTES else failed + 1
            if failed >= tries.count:
                raise trouble.error from trouble
            wait_s = tries.first_wait_s * 2.0 ** (failed - 1) * random.uniform(0.8, 1.2)
            wait_s = min(tries.longest_wait_s, wait_s if trouble.wait_s is None else trouble.wait_s)
            listener.say(f"{trouble.error.message}; try {failed + 1} of {tries.count} in {wait_s:.1f} s")
            time.sleep(wait_s)


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bytes of a .part come from: the address, the hash that was asked for, and the version there."""

    address: str
    sha256: str
    version: str = ""


class Part:
    """The .part file beside `target`, locked while it is open. Bytes are in the file as soon as `write` returns.

    Raises Conflict while another pull writes it. `kept` counts the bytes of an earlier pull, `note` beside the file
    says what they belong to.
    """

    def __init__(self, target: Path, remote: Remote) -> None:
        self.path = target.with_name(target.name + ".part")
        self._note_path = self.path.with_name(self.path.name + ".json")
        self._file = self._open(target)
        self._wanted = _Note(address=identity(remote.url), sha256=remote.sha256)
        note = self._read_note()
        same = bool(note.sha256) and note.sha256 == remote.sha256
        if not same and (note.address != self._wanted.address or not note.version):
            self.restart("")
        self.version = note.version
        self.kept = self.size

    def _open(self, target: Path) -> BinaryIO:
        while True:
            with writing(self.path):
                file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.close()
                raise Conflict(f"{target}: another pull is writing it; wait for that or choose --as NAME") from error
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    file.seek(0, os.SEEK_END)
                    return file
            file.close()  # another pull finished meanwhile and gave the file its name

    def _read_note(self) -> _Note:
        try:
            return msgspec.json.decode(self._note_path.read_bytes(), type=_Note)
        except (OSError, msgspec.DecodeError):
            return _Note(address="", sha256="")

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def restart(self, version: str) -> None:
        """Empty the file for bytes of `version`; a note never describes bytes of something else."""
        self._note_path.unlink(missing_ok=True)
        with writing(self.path):
            self._file.truncate(0)
            self._file.seek(0)
            self._note_path.write_bytes(msgspec.json.encode(msgspec.structs.replace(self._wanted, version=version)))
        self.version, self.kept = version, 0

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            with writing(self.path):
                view = view[self._file.write(view) :]

    def sha256(self) -> str:
        """Bring the bytes to the disk; their SHA-256 in hex."""
        with writing(self.path):
            os.fsync(self._file.fileno())
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def close(self) -> None:
        """An empty part, and one that has its own name by now, leave nothing behind."""
        if not self.size:
            self.path.unlink(missing_ok=True)
        self._file.close()
        if not self.path.exists():
            self._note_path.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises PullFailed when the disk is full or the folder belongs to somebody else."""
    try:
        yield
    except OSError as error:
        raise PullFailed(
            f"{path}: cannot be written ({error.strerror}); free space or set GAIAD_MODELS to another folder,"
            " then run the same command again"
        ) from error


def check_space(folder: Path, needed: int) -> None:
    """Raises PullFailed with the numbers unless `needed` more bytes and a reserve fit into `folder`."""
    available = shutil.disk_usage(folder).free
    if needed > 0 and available < needed + RESERVE_BYTES:
        raise PullFailed(
            f"{folder}: {needed:,} bytes are needed (and {RESERVE_BYTES:,} in reserve), {available:,} are free;"
            " make room or set GAIAD_MODELS to a folder on another disk"
        )


def download(remote: Remote, part: Part, tries: Tries, listener: Listener) -> str:
    """Bring the rest of the file into `part`; its SHA-256 in hex. Pieces that make a wrong file are fetched again once.

    Raises NotFound, Unauthorized, Forbidden, Unavailable, DeadlineExceeded, BadInput, PullFailed; the part stays.
    """
    if _is_unprotected(remote.url):
        listener.say(f"warning: {shown(remote.url)} is not https; anyone on the way can change the file: give --sha256")
    with _client(tries) as client:
        persist(lambda: _fetch(client, remote, part, listener), tries, listener, lambda: part.size)
        digest = part.sha256()
        if part.kept and remote.sha256 not in ("", digest):
            listener.say(f"{shown(remote.url)}: the pieces do not make the promised file; starting again")
            part.restart("")
            persist(lambda: _fetch(client, remote, part, listener), tries, listener, lambda: part.size)
            digest = part.sha256()
    if remote.size >= 0 and part.size != remote.size:
        raise PullFailed(f"{shown(remote.url)}: has {part.size} bytes, the hub promised {remote.size}; try again later")
    return digest


def _client(tries: Tries) -> httpx2.Client:
    with proxy_from_environment():
        timeout = httpx2.Timeout(tries.silence_s, connect=tries.connect_s)
        return httpx2.Client(follow_redirects=True, max_redirects=_MAX_REDIRECTS, timeout=timeout)


def _fetch(client: httpx2.Client, remote: Remote, part: Part, listener: Listener) -> None:
    """One request: the rest of the file, or all of it. Raises Transient when another one is worth it."""
    address, before = shown(remote.url), part.size
    if remote.sha256 and before == remote.size:
        return
    headers = {**remote.headers, "Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
        if part.version and not remote.sha256:
            headers["If-Range"] = part.version
    with translated(address), client.stream("GET", remote.url, headers=headers) as response:
        start, total = _range(response)
        if response.status_code == 416 and before and total in (-1, before):
            return
        if response.status_code == 206 and (
            start != before or not (remote.sha256 or _version(response) == part.version)
        ):
            part.restart("")
            raise Transient(Unavailable(f"{address}: cannot be resumed because the file has changed"), 0.0)
        if response.status_code not in (200, 206):
            raise _refusal(response, address, remote.hint)
        if response.status_code == 200:
            if before:
                listener.say(f"{address}: the server does not resume this file; starting again")
            part.restart(_version(response))
        _receive(response, total, remote, part, listener)


def _receive(response: httpx2.Response, total: int, remote: Remote, part: Part, listener: Listener) -> None:
    address, size = shown(remote.url), part.size
    if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        raise PullFailed(f"{address}: the server compresses the file ({encoding}) unasked; fetch it another way")
    check_space(part.path.parent, total - size)
    for block in response.iter_raw():
        if not size and not block.startswith(MAGIC[: len(block)]):
            raise PullFailed(_not_a_model(block, response, remote.url))
        part.write(block)
        size += len(block)
        listener.show(remote.target, size, max(total, 0))
    if total > 0 and size != total:
        if size > total:
            part.restart("")
        raise Transient(Unavailable(f"{address}: the download ended at {size} of {total} bytes"))


def _not_a_model(block: bytes, response: httpx2.Response, url: str) -> str:
    page = "; a /blob/ address is a web page, write /resolve/ instead" if "/blob/" in url else ""
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    start = f"it starts with {bytes(block[:4])!r}{f', {kind}' if kind else ''}"
    return f"{shown(url)}: is not a GGUF ({start}){page}; check the address"


def _range(response: httpx2.Response) -> tuple[int, int]:
    """First byte of the body in the file, and the file's size; -1 for what is unknown."""
    if response.status_code in (206, 416):
        found = _RANGE.fullmatch(response.headers.get("content-range", "").strip())
        if found is None:
            return -1, -1
        return int(found["start"] or -1), int(found["total"]) if found["total"] != "*" else -1
    length = response.headers.get("content-length", "")
    return 0, int(length) if length.isdecimal() else -1


def _version(response: httpx2.Response) -> str:
    """What If-Range takes: a strong ETag, else the date of the last change."""
    tag = response.headers.get("etag", "").strip()
    return tag if tag.startswith('"') else response.headers.get("last-modified", "").strip()


def _is_unprotected(url: str) -> bool:
    """Whether what comes from there could be read and changed on the way: http, and not this machine."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


@contextlib.contextmanager
def translated(address: str) -> Iterator[None]:
    """The errors of httpx2 as ours. Raises Transient where another try may help, BadInput where it cannot."""
    try:
        yield
    except httpx2.TimeoutException as error:
        raise Transient(DeadlineExceeded(f"{address}: the server fell silent; check the network")) from error
    except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError) as error:
        reason = str(error) or type(error).__name__
        raise Transient(Unavailable(f"{address}: the connection failed ({reason}); check the network")) from error
    except httpx2.TooManyRedirects as error:
        raise BadInput(f"{address}: redirects in a circle (more than {_MAX_REDIRECTS} times); check it") from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise BadInput(f"{address}: cannot be fetched ({error}); check the address") from error


@contextlib.contextmanager
def proxy_from_environment() -> Iterator[None]:
    """Around the making of a client, which reads HTTP_PROXY and the like and supports no SOCKS. Raises BadInput."""
    try:
        yield
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise BadInput(
            f"the proxy that your environment names cannot be used ({error}); write an http:// one or unset it"
        ) from error


def _refusal(response: httpx2.Response, address: str, hint: str) -> GaiadError | Transient:
    error = status_error(response.status_code, address, hint)
    if response.status_code not in _TRANSIENT:
        return error
    asked = response.headers.get("retry-after", "").strip()
    return Transient(error, float(asked) if asked.isdecimal() else None)


def status_error(status: int, address: str, hint: str) -> GaiadError:
    """The error for a status that is not a file: its meaning and the remedy. `address` is without secrets."""
    if status == 401:
        return Unauthorized(f"{address}: requires a login (401); {hint}")
    if status == 403:
        return Forbidden(f"{address}: access denied (403); {hint}")
    if status in (404, 410):
        return NotFound(f"{address}: no such file ({status}); check the address")
    if status in (408, 504):
        return DeadlineExceeded(f"{address}: the server did not answer in time ({status})")
    if status == 429:
        return Unavailable(f"{address}: the server asks for fewer requests (429)", 60.0)
    if status >= 500:
        return Unavailable(f"{address}: server error ({status})", 30.0)
    return PullFailed(f"{address}: the server answers {status}, which is not a file; check the address")
