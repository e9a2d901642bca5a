"""What the head of an HTTP answer says about a file: size, version and hash; and a refusal in one line. Pure."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from gaiad.errors import DeadlineExceeded, Forbidden, GaiadError, NotFound, Unauthorized, Unavailable
from gaiad.models.pulling.tries import PullFailed

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_LOGIN = "pull from a hub by its name, owner/repo; else fetch it with your browser and pull the file"
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<total>\d+|\*)")
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:?(?P<value>[A-Za-z0-9+/]{43}=):?", re.IGNORECASE)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`start` and `total` are bytes, -1 when not known; `validator` is for If-Range; what is not offered is ""."""

    status: int
    start: int
    total: int
    validator: str
    sha256: str
    content_type: str
    encoding: str
    retry_after_s: float | None


def read_answer(status: int, headers: Mapping[str, str], earlier: Sequence[Mapping[str, str]] = ()) -> Answer:
    """Read the head; keys in lower case. `earlier` are heads of the redirects on the way, where a hub puts its own."""
    start, total = _range(status, headers)
    linked = next((head for head in earlier if "x-linked-etag" in head), headers)
    if total < 0 and linked.get("x-linked-size", "").isdecimal():
        total = int(linked["x-linked-size"])
    return Answer(
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
    """The error for a status that is no file: what it means and the remedy. `shown` is the address without secrets."""
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
    return PullFailed(f"{shown}: the server answers {status}, which is no file; check the address")


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
