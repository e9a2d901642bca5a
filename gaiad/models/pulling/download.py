"""Downloads one file over HTTP into its .part, and goes on where an earlier try stopped. httpx2 is met here.

A range is asked for with If-Range, so that another version of the file starts again; with a known SHA-256 the version
does not matter, for the hash decides.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx2
import msgspec

from gaiad.base.errors import BadInput, DeadlineExceeded, Unavailable
from gaiad.models.gguf.gguf_header import MAGIC
from gaiad.models.pulling.files import Note, Part, check_space
from gaiad.models.pulling.http import (
    TRANSIENT_STATUSES,
    Attempts,
    DownloadResponse,
    Listener,
    PullFailed,
    Transient,
    Tries,
    identity,
    is_unprotected,
    read_answer,
    shown,
    status_error,
)

_MAX_REDIRECTS = 10


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """A file to download: `headers` (a login) go to the address' own host only; hash and size as promised by a hub.

    `hint` is the remedy when the server refuses.
    """

    target: str
    url: str
    headers: dict[str, str] = {}
    sha256: str = ""
    size: int = -1
    hint: str = ""


def download(remote: Remote, part: Part, tries: Tries, listener: Listener) -> str:
    """Bring the rest of the file into `part`, which is open; its SHA-256 in hex.

    Raises NotFound, Unauthorized, Forbidden, Unavailable, DeadlineExceeded, BadInput, PullFailed; the part stays.
    """
    attempts = Attempts(tries, listener)
    with _client(remote, tries, listener) as client:
        while True:
            before = part.size
            try:
                _fetch(client, remote, part, listener)
                break
            except Transient as trouble:
                attempts.failed(trouble, part.size - before)
    if remote.size >= 0 and part.size != remote.size:
        raise PullFailed(f"{shown(remote.url)}: has {part.size} bytes, the hub promised {remote.size}; try again later")
    return part.finish()


def look(remote: Remote, known: Note | None, tries: Tries, listener: Listener) -> DownloadResponse:
    """The head of the answer alone; status 304 when the file is still the one that `known` noted."""
    headers = {**remote.headers, "Accept-Encoding": "identity", "Range": "bytes=0-0"}
    if known is not None and known.validator.startswith('"'):
        headers["If-None-Match"] = known.validator
    attempts = Attempts(tries, listener)
    with _client(remote, tries, listener) as client:
        while True:
            try:
                with _answered(client, remote, headers) as (answer, _):
                    return answer
            except Transient as trouble:
                attempts.failed(trouble, 0)


def _client(remote: Remote, tries: Tries, listener: Listener) -> httpx2.Client:
    warned: set[str] = set()

    def warn(request: httpx2.Request) -> None:
        address = str(request.url)
        if is_unprotected(address) and request.url.host not in warned:
            warned.add(request.url.host)
            listener.say(
                f"warning: {shown(address)} is not https; anyone on the way can change the file: give --sha256"
            )

    try:
        return httpx2.Client(
            follow_redirects=True,
            max_redirects=_MAX_REDIRECTS,
            timeout=httpx2.Timeout(tries.silence_s, connect=tries.connect_s),
            event_hooks={"request": [warn]},
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise unusable_proxy(error) from error


def unusable_proxy(error: Exception) -> BadInput:
    """The client reads HTTP_PROXY and the like as it is made, and knows no SOCKS."""
    return BadInput(f"the proxy that your environment names cannot be used ({error}); write an http:// one or unset it")


@contextmanager
def _answered(
    client: httpx2.Client, remote: Remote, headers: Mapping[str, str]
) -> Iterator[tuple[DownloadResponse, httpx2.Response]]:
    """The answer to a GET, its body unread; what goes wrong until the end of the body is translated."""
    address = shown(remote.url)
    try:
        with client.stream("GET", remote.url, headers=dict(headers)) as response:
            answer = read_answer(response.status_code, response.headers, [old.headers for old in response.history])
            if answer.status in TRANSIENT_STATUSES:
                raise Transient(status_error(answer.status, address), answer.retry_after_s)
            if answer.status not in (200, 206, 304, 416):
                raise status_error(answer.status, address, remote.hint)
            yield answer, response
    except httpx2.TimeoutException as error:
        raise Transient(DeadlineExceeded(f"{address}: the server fell silent; check the network")) from error
    except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError) as error:
        reason = str(error) or type(error).__name__
        raise Transient(Unavailable(f"{address}: the connection failed ({reason}); check the network")) from error
    except httpx2.TooManyRedirects as error:
        raise BadInput(f"{address}: leads in a circle (more than {_MAX_REDIRECTS} redirects); check it") from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise BadInput(f"{address}: is not an address that can be fetched ({error}); check it") from error


def _fetch(client: httpx2.Client, remote: Remote, part: Part, listener: Listener) -> None:
    """One request: the rest of the file, or all of it. Raises Transient when another one is worth it."""
    if remote.sha256 and part.size == remote.size:
        return
    headers = {**remote.headers, "Accept-Encoding": "identity"}
    if part.size and part.note is not None:
        headers["Range"] = f"bytes={part.size}-"
        if part.note.validator and not remote.sha256:
            headers["If-Range"] = part.note.validator
    with _answered(client, remote, headers) as (answer, response):
        if _place(answer, remote, part, listener):
            _receive(response, answer, remote, part, listener)


def _place(answer: DownloadResponse, remote: Remote, part: Part, listener: Listener) -> bool:
    """Make `part` ready for the body; False when nothing is missing. Raises Transient to ask again from the start."""
    address = shown(remote.url)
    _check_offer(answer, remote)
    if answer.status == 416 and part.size and part.size == (answer.total if answer.total >= 0 else _noted_size(part)):
        return False
    if answer.status == 206 and answer.start == part.size and _same_version(answer, remote, part):
        part.spliced = True
        return True
    if answer.status == 200:
        if part.size:
            listener.say(f"{address}: starting again, {_why_again(answer, part)}")
        note = Note(
            address=identity(remote.url),
            validator=answer.validator,
            sha256=remote.sha256 or answer.sha256,
            size=answer.total,
        )
        part.begin(note)
        return True
    if not part.size:
        raise PullFailed(f"{address}: the server answers {answer.status} to a plain request; fetch it another way")
    part.forget()
    raise Transient(Unavailable(f"{address}: cannot be continued, the file there is another now"), 0.0)


def _check_offer(answer: DownloadResponse, remote: Remote) -> None:
    address = shown(remote.url)
    if answer.encoding != "identity" and answer.status != 416:
        raise PullFailed(f"{address}: the server compresses the file ({answer.encoding}) unasked; fetch it another way")
    if remote.sha256 and answer.sha256 and answer.sha256 != remote.sha256:
        raise PullFailed(
            f"{address}: the server offers SHA-256 {answer.sha256}, wanted is {remote.sha256}; check which is right"
        )


def _same_version(answer: DownloadResponse, remote: Remote, part: Part) -> bool:
    noted = part.note.validator if part.note is not None else ""
    return bool(remote.sha256) or answer.validator == noted


def _noted_size(part: Part) -> int:
    return part.note.size if part.note is not None else -1


def _why_again(answer: DownloadResponse, part: Part) -> str:
    changed = part.note is not None and part.note.validator != answer.validator
    return "the file there has changed" if changed else "the server cannot continue a file"


def _receive(
    response: httpx2.Response, answer: DownloadResponse, remote: Remote, part: Part, listener: Listener
) -> None:
    total = max(answer.total, 0)
    check_space(part.path, total - part.size)
    for block in response.iter_raw():
        if not part.size and not block.startswith(MAGIC[: len(block)]):
            raise PullFailed(_no_model(block, answer, remote))
        part.append(block)
        listener.show(remote.target, part.size, total)
    if total and part.size != total:
        message = f"{shown(remote.url)}: ended at {part.size} of {total} bytes"
        if part.size > total:
            part.forget()
        raise Transient(Unavailable(message))


def _no_model(block: bytes, answer: DownloadResponse, remote: Remote) -> str:
    page = "; a /blob/ address is a web page, write /resolve/ instead" if "/blob/" in remote.url else ""
    kind = f", {answer.content_type}" if answer.content_type else ""
    return f"{shown(remote.url)}: is not a GGUF (it starts with {bytes(block[:4])!r}{kind}){page}; check the address"
