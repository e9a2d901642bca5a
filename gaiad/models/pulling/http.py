"""What HTTP says about a file (size, version, hash, refusals), and trying again when it fails in passing."""

import base64
import binascii
import ipaddress
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from gaiad.base.errors import BadInput, DeadlineExceeded, Forbidden, GaiadError, NotFound, Unauthorized, Unavailable

_PROGRESS_BYTES = 1 << 20


class Listener(Protocol):
    """Who watches a pull: lines for a person, and bytes done of a file (`total` is 0 while nobody knows it)."""

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


class Transient(Exception):
    """Worth another try; `error` is what is raised when there is none. `wait_s` is what the other side asked for."""

    def __init__(self, error: GaiadError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


class Attempts:
    """Counts the tries in a row that brought less than a mebibyte, and waits between two."""

    def __init__(self, tries: Tries, listener: Listener) -> None:
        self._tries = tries
        self._listener = listener
        self._failed = 0

    def failed(self, trouble: Transient, came_bytes: int) -> None:
        """Wait before the next try, or raise the error of the last one."""
        self._failed = 1 if came_bytes >= _PROGRESS_BYTES else self._failed + 1
        if self._failed >= self._tries.count:
            raise trouble.error
        wait_s = self._wait_s(trouble.wait_s)
        self._listener.say(f"{trouble.error.message}; try {self._failed + 1} of {self._tries.count} in {wait_s:.1f} s")
        time.sleep(wait_s)

    def _wait_s(self, asked_s: float | None) -> float:
        if asked_s is not None:
            return min(asked_s, self._tries.longest_wait_s)
        backoff_s = self._tries.first_wait_s * 2.0 ** (self._failed - 1)
        return min(backoff_s, self._tries.longest_wait_s) * random.uniform(0.8, 1.2)


TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_LOGIN = "pull from a hub by its name, owner/repo; else fetch it with your browser and pull the file"
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<total>\d+|\*)")
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:?(?P<value>[A-Za-z0-9+/]{43}=):?", re.IGNORECASE)


class DownloadResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`start` and `total` are bytes, -1 when not known; `validator` is for If-Range; what is not offered is ""."""

    status: int
    start: int
    total: int
    validator: str
    sha256: str
    content_type: str
    encoding: str
    retry_after_s: float | None


def read_answer(status: int, headers: Mapping[str, str], earlier: Sequence[Mapping[str, str]] = ()) -> DownloadResponse:
    """Read the head; keys in lower case. `earlier` are heads of the redirects on the way, where a hub puts its own."""
    start, total = _range(status, headers)
    linked = next((head for head in earlier if "x-linked-etag" in head), headers)
    if total < 0 and linked.get("x-linked-size", "").isdecimal():
        total = int(linked["x-linked-size"])
    return DownloadResponse(
        status=status,
        start=start,
        total=total,
        validator=_validator(headers),
        sha256=_sha256(headers, linked),
        content_type=headers.get("content-type", "").partition(";")[0].strip(),
        encoding=headers.get("content-encoding", "identity").strip().lower(),
        retry_after_s=_seconds(headers.get("retry-after", "")),
    )


def status_error(status: int, shown: str, hint: str = "") -> GaiadError:
    """The error for a status that is not a file: its meaning and the remedy. `shown` is the address without secrets."""
    if status == 401:
        return Unauthorized(f"{shown}: wants a login (401); {hint or _NO_LOGIN}")
    if status == 403:
        return Forbidden(f"{shown}: is refused to you (403); {hint or 'ask its owner, or get a fresh address'}")
    if status in (404, 410):
        return NotFound(f"{shown}: there is no such file ({status}); check the address")
    if status == 416:
        return PullFailed(f"{shown}: cannot be continued there (416); delete the .part file and try again")
    if status in (408, 504):
        return DeadlineExceeded(f"{shown}: the server did not answer in time ({status})")
    if status == 429:
        return Unavailable(f"{shown}: the server asks for fewer requests (429)", 60.0)
    if status >= 500:
        return Unavailable(f"{shown}: the server has a fault ({status})", 30.0)
    return PullFailed(f"{shown}: the server answers {status}, which is not a file; check the address")


def shown(url: str) -> str:
    """An address for people: without login, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


def identity(url: str) -> str:
    """An address for notes: as shown, and a hash of its query in place of the query."""
    query = urlsplit(url).query
    return shown(url) + (f"?{sha256(query.encode()).hexdigest()[:16]}" if query else "")


def is_unprotected(url: str) -> bool:
    """Whether what comes from there could be read and changed on the way: http, and not this machine."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def _range(status: int, headers: Mapping[str, str]) -> tuple[int, int]:
    """First byte of the body in the file, and the file's size."""
    if status in (206, 416):
        found = _RANGE.fullmatch(headers.get("content-range", "").strip())
        if found is None:
            return -1, -1
        total = int(found["total"]) if found["total"] != "*" else -1
        return int(found["start"] or -1), total
    length = headers.get("content-length", "")
    return 0, int(length) if length.isdecimal() else -1


def _validator(headers: Mapping[str, str]) -> str:
    """What If-Range takes: a strong ETag, else the date of the last change."""
    tag = headers.get("etag", "").strip()
    return tag if tag.startswith('"') else headers.get("last-modified", "").strip()


def _sha256(headers: Mapping[str, str], linked: Mapping[str, str]) -> str:
    hub = linked.get("x-linked-etag", "").strip().removeprefix("W/").strip('"')
    if _HEX_SHA256.fullmatch(hub):
        return hub
    for name in ("repr-digest", "digest"):
        if found := _DIGEST.search(headers.get(name, "")):
            return _hex(found["value"])
    if headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT":
        return _hex(headers.get("x-amz-checksum-sha256", ""))
    return ""


def _hex(encoded: str) -> str:
    try:
        digits = base64.b64decode(encoded, validate=True).hex()
    except binascii.Error:
        return ""
    return digits if _HEX_SHA256.fullmatch(digits) else ""


def _seconds(text: str) -> float | None:
    return float(text) if text.strip().isdecimal() else None


_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_HUB = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<wanted>.+))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}", re.ASCII)
_SHA256 = re.compile(r"(?:sha256:)?(?P<digits>[0-9a-fA-F]{64})")
_MAX_PARTS = 999
_FORMS = "write a path, an http(s) address, or a hub name as owner/repo or owner/repo:Q4_K_M"


class FileSource(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF on this machine."""

    path: Path


class WebSource(msgspec.Struct, frozen=True, kw_only=True):
    """A GGUF at an http(s) address."""

    url: str


class HubSource(msgspec.Struct, frozen=True, kw_only=True):
    """A repository on the hub; `wanted` is a file's name, a pattern or a quantisation, "" for its only model."""

    repo: str
    wanted: str


Source = FileSource | WebSource | HubSource


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a model: `number` of `count`, from 1."""

    stem: str
    number: int
    count: int


def parse_source(text: str, is_file: Callable[[Path], bool] = Path.is_file) -> Source:
    """Tell the kinds apart; what is there as a file is that file. Raises BadInput naming the text and the forms."""
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    scheme, separator, _ = text.partition("://")
    if separator:
        if scheme.lower() not in ("http", "https"):
            raise BadInput(f"{text}: {scheme}:// cannot be pulled; {_FORMS}")
        _check_address(text)
        return WebSource(url=text)
    if text and is_file(path):
        return FileSource(path=path)
    hub = _HUB.fullmatch(text)
    named_as_path = text.startswith((".", "/", "~")) or (text.lower().endswith(".gguf") and ":" not in text)
    if hub is None or named_as_path:
        raise BadInput(f"{text}: no such file, and no address or hub name; {_FORMS}")
    return HubSource(repo=hub["repo"], wanted=hub["wanted"] or "")


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadInput(f"{url}: is not a valid address ({error}); {_FORMS}") from error
    if not host:
        raise BadInput(f"{url}: names no host; {_FORMS}")


def parse_sha256(text: str) -> str:
    """64 hexadecimal digits in lower case, "" for none. Raises BadInput naming the text."""
    found = _SHA256.fullmatch(text.strip())
    if text and found is None:
        raise BadInput(f"--sha256 {text}: is not a SHA-256; write its 64 hexadecimal digits")
    return found["digits"].lower() if found else ""


def shard_of(name: str) -> Shard | None:
    """Which part of a model a file is; None when it is a whole one."""
    found = _SHARD.fullmatch(name)
    if found is None:
        return None
    shard = Shard(stem=found["stem"], number=int(found["number"]), count=int(found["count"]))
    return shard if shard.count > 1 and 1 <= shard.number <= shard.count else None


def part_names(name: str) -> list[str]:
    """The names of all parts of the model that `name` is of; `name` alone when it is whole. Raises BadInput."""
    shard = shard_of(name)
    if shard is None:
        return [name]
    if shard.count > _MAX_PARTS:
        raise BadInput(f"{name}: is one of {shard.count} parts, at most {_MAX_PARTS} are pulled")
    return [f"{shard.stem}-{number:05d}-of-{shard.count:05d}{name[-5:]}" for number in range(1, shard.count + 1)]


def name_in_address(url: str) -> str:
    """The file name an address ends with, "" when it has none."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def target_names(names: list[str], chosen: str) -> list[str]:
    """What the files are called in the models folder: `chosen` with the parts' numbers, else their own names.

    Raises BadInput for a name that cannot be a file's.
    """
    if chosen:
        stem = chosen[: -len(".gguf")] if chosen.lower().endswith(".gguf") else chosen
        if not _NAME.fullmatch(stem):
            raise BadInput(f"--as {chosen}: write a name of letters, digits, dots, dashes and underscores")
    else:
        stem = ""
    return [_target_name(name, stem) for name in names]


def _target_name(name: str, stem: str) -> str:
    shard = shard_of(name)
    own = shard.stem if shard else re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)
    own = stem or re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-._")[:120]
    if not own:
        raise BadInput(f"{name!r}: cannot derive a model name from this; give --as NAME")
    return f"{own}-{shard.number:05d}-of-{shard.count:05d}.gguf" if shard else f"{own}.gguf"


def model_name(target: str) -> str:
    """The model's name for the settings, from the name of its (first) file."""
    shard = shard_of(target)
    return shard.stem if shard else target[: -len(".gguf")]
