"""The daemon's API for a program on the same machine: HTTP over the unix socket, standard library only.

It exists so that the command line starts fast: no event loop, no aiohttp, no numpy. It decodes answers into the
structs of `schemas` and turns an error answer into the error class of the same code. Where the socket lies is
decided in `home`.
"""

import http.client
import os
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from gaiad.errors import (
    BadInput,
    DaemonUnreachable,
    DeadlineExceeded,
    Forbidden,
    GaiadError,
    Unavailable,
)
from gaiad.home import SOCKET_NAME, find_home
from gaiad.schemas import (
    Check,
    ErrorBody,
    IngestOutcome,
    IngestRequest,
    Job,
    Output,
    PacketDetail,
    PacketFilter,
    PacketSummary,
    ReloadReport,
    ResearchRequest,
    ResearchResult,
    SearchRequest,
    SearchResponse,
    Status,
    VerifyReport,
)

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 150.0

T = TypeVar("T")


class IngestAnswer(Output, frozen=True):
    """The job that reads the files, and what became of those already read."""

    job: Job
    outcomes: list[IngestOutcome]


class ServerEvent(Output, frozen=True):
    """One server-sent event; `data` is decoded JSON."""

    id: str
    event: str
    data: Any


class _Packets(Output, frozen=True):
    packets: list[PacketSummary]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(CONNECT_TIMEOUT_S)
            self.sock.connect(str(self._path))
        except BaseException:
            self.close()
            raise


def find_socket(home: str | None, environment: Mapping[str, str]) -> Path:
    """Where the daemon listens: with `home` as for that home, else GAIAD_SOCKET, else as for the home in force.

    A daemon started with --home keeps its socket there; GAIAD_HOME finds it too.
    """
    if not home and environment.get("GAIAD_SOCKET"):
        return Path(environment["GAIAD_SOCKET"])
    found = find_home(home, environment)
    inside = found.root / SOCKET_NAME
    return inside if not found.socket.exists() and inside.exists() else found.socket


class Client:
    """One connection, opened at the first call and kept; for one thread. `home` is what --home says, None without.

    Every method raises the GaiadError the daemon answered with, DaemonUnreachable when none answers, Unavailable when
    it goes away under the call, DeadlineExceeded when it does not answer in time.
    """

    def __init__(self, home: Path | str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        self.socket_path = find_socket(str(home) if home else None, environment)
        self._start_command = f"gaiad serve --home {shlex.quote(str(home))}" if home else "gaiad serve"
        self._connection = _UnixConnection(self.socket_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the daemon cancels whatever it was still doing for it."""
        self._connection.close()

    # ------------------------------------------------------------------------------------------- the daemon itself

    def health(self) -> dict[str, Any]:
        return self._call("GET", "/healthz", dict[str, Any], timeout_s=CONNECT_TIMEOUT_S)

    def status(self, tenant: str = "") -> Status:
        """The whole daemon, or with `tenant` that tenant's counts."""
        return self._call("GET", f"/status{_query(tenant=tenant)}", Status)

    def stop(self) -> dict[str, Any]:
        """Ask the daemon to stop; it answers before it has."""
        return self._call("POST", "/stop", dict[str, Any], {})

    def config(self) -> dict[str, Any]:
        """The settings in effect, by section."""
        return self._call("GET", "/config", dict[str, Any])

    def reload_config(self) -> ReloadReport:
        """Re-read the configuration. Raises ConfigError when it does not fit, and the last good one stays."""
        return self._call("POST", "/config/reload", ReloadReport, {})

    def doctor(self) -> list[Check]:
        return self._call("GET", "/doctor", dict[str, list[Check]], timeout_s=None)["checks"]

    # --------------------------------------------------------------------------------------------------- the archive

    def ingest(self, request: IngestRequest) -> IngestAnswer:
        return self._call(
            "POST", "/ingest", IngestAnswer, request, timeout_s=None if request.wait else ANSWER_TIMEOUT_S
        )

    def search(self, request: SearchRequest) -> SearchResponse:
        return self._call("POST", "/search", SearchResponse, request)

    def research(self, request: ResearchRequest) -> ResearchResult:
        return self._call("POST", "/research", ResearchResult, request)

    def packets(self, request: PacketFilter) -> list[PacketSummary]:
        return self._call("POST", "/packets/list", _Packets, request).packets

    def packet(self, packet_id: str, tenant: str) -> PacketDetail:
        return self._call("POST", "/packets/show", PacketDetail, {"packet_id": packet_id, "tenant": tenant})

    def original(self, packet_id: str, tenant: str, revision: int = 0) -> bytes:
        """The packet's bytes as they came in; `revision` 0 is the newest."""
        body = {"packet_id": packet_id, "tenant": tenant, "revision": revision}
        return self._exchange("POST", "/packets/export", body, ANSWER_TIMEOUT_S)

    def verify(self, packet_ids: list[str], tenant: str) -> VerifyReport:
        """Hold packets against their stored originals; [] is all of the tenant."""
        body = {"packet_ids": packet_ids, "tenant": tenant}
        return self._call("POST", "/packets/verify", VerifyReport, body, timeout_s=None)

    def quarantine(self, tenant: str) -> list[dict[str, Any]]:
        answer = self._call("GET", f"/quarantine{_query(tenant=tenant)}", dict[str, list[dict[str, Any]]])
        return answer["quarantined"]

    def backup(self, directory: Path) -> dict[str, Any]:
        return self._call("POST", "/backup", dict[str, Any], {"directory": str(directory)}, timeout_s=None)

    def restore(self, directory: Path) -> dict[str, Any]:
        return self._call("POST", "/restore", dict[str, Any], {"directory": str(directory)}, timeout_s=None)

    # ---------------------------------------------------------------------------------------------------------- jobs

    def reindex(self, tenant: str) -> Job:
        """Start rebuilding everything derived from the originals."""
        return self._call("POST", "/reindex", Job, {"tenant": tenant})

    def sweep(self, tenant: str) -> Job:
        """Start checking folders, database and indexes against each other."""
        return self._call("POST", "/sweep", Job, {"tenant": tenant})

    def jobs(self, tenant: str = "") -> list[Job]:
        """Newest first, of `tenant` or of all."""
        return self._call("GET", f"/jobs{_query(tenant=tenant)}", dict[str, list[Job]])["jobs"]

    def job(self, job_id: str, tenant: str = "") -> Job:
        return self._call("GET", _job_path(job_id, tenant=tenant), Job)

    def outcomes(self, job_id: str, after: int = 0, tenant: str = "") -> list[IngestOutcome]:
        """What became of the job's files, those after the first `after`."""
        path = _job_path(job_id, "/outcomes", after=str(after), tenant=tenant)
        return self._call("GET", path, dict[str, list[IngestOutcome]])["outcomes"]

    def cancel_job(self, job_id: str, tenant: str = "") -> Job:
        """Ask a job to stop. Raises Conflict when it has ended."""
        return self._call("POST", _job_path(job_id, "/cancel", tenant=tenant), Job, {})

    # -------------------------------------------------------------------------------------------------------- streams

    def events(self, after: int | None = None) -> Iterator[ServerEvent]:
        """What happens in the daemon, from event `after` on (None: from now), until the caller stops reading."""
        query = "" if after is None else f"?after={after}"
        return self._stream("GET", f"/events{query}", None)

    def research_events(self, request: ResearchRequest) -> Iterator[ServerEvent]:
        """The steps of a research run as they happen; the last event is `result` with a ResearchResult."""
        return self._stream("POST", "/research", request)

    # ------------------------------------------------------------------------------------------------------- exchange

    def get(self, path: str) -> Any:
        """GET `path` as decoded JSON, for routes that have no method here."""
        return self._call("GET", path, object)

    def post(self, path: str, body: object) -> Any:
        """POST `body` as JSON to `path`; the decoded answer. No time limit."""
        return self._call("POST", path, object, body, timeout_s=None)

    def _call(
        self, method: str, path: str, kind: type[T], body: object = None, timeout_s: float | None = ANSWER_TIMEOUT_S
    ) -> T:
        content = self._exchange(method, path, body, timeout_s)
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as error:
            raise GaiadError(
                f"the daemon on {self.socket_path} answered {path} in a way this version does not know ({error}); "
                "stop it and start the installed one"
            ) from error

    def _exchange(self, method: str, path: str, body: object, timeout_s: float | None) -> bytes:
        try:
            return self._request(method, path, body, timeout_s, "application/json").read()
        except (OSError, http.client.HTTPException) as error:
            raise self._translate(error, method, path) from error

    def _request(
        self, method: str, path: str, body: object, timeout_s: float | None, accept: str
    ) -> http.client.HTTPResponse:
        content = None if body is None else _encode(body)
        headers = {"Accept": accept, "Content-Type": "application/json"}
        try:
            if self._connection.sock is None:
                self._connection.connect()
            self._connection.sock.settimeout(timeout_s)
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            if response.status >= 400:
                raise error_from_answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._translate(error, method, path) from error
        return response

    def _stream(self, method: str, path: str, body: object) -> Iterator[ServerEvent]:
        response = self._request(method, path, body, None, "text/event-stream")
        try:
            for event in parse_events(response):
                if event.event == "error":
                    raise error_from_body(msgspec.convert(event.data, ErrorBody))
                yield event
        except (OSError, http.client.HTTPException) as error:
            raise self._translate(error, method, path) from error
        finally:
            self.close()

    def _translate(self, error: Exception, method: str, path: str) -> GaiadError:
        self._connection.close()
        where = str(self.socket_path)
        if isinstance(error, FileNotFoundError | NotADirectoryError | ConnectionRefusedError):
            return DaemonUnreachable(f"no daemon answers on {where}; start one with: {self._start_command}")
        if isinstance(error, PermissionError):
            return Forbidden(f"{where}: this user may not open the daemon's socket; run as its owner")
        if isinstance(error, TimeoutError):
            return DeadlineExceeded(f"the daemon on {where} did not answer {method} {path} in time; look at its log")
        if isinstance(error, ConnectionError | http.client.HTTPException):
            return Unavailable(f"the daemon on {where} went away during {method} {path}; look at its log and try again")
        if "too long" in str(error):
            return BadInput(
                f"{where}: too long for a unix socket (about 100 characters); set GAIAD_SOCKET to a shorter one"
            )
        return GaiadError(f"{where}: {error}")


def _query(**given: str) -> str:
    """A query string of what is not ""; "" when nothing is left."""
    kept = {name: value for name, value in given.items() if value}
    return f"?{urlencode(kept)}" if kept else ""


def _job_path(job_id: str, rest: str = "", **given: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}{rest}{_query(**given)}"


def _encode(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise BadInput(f"{error.object!r} is not valid Unicode, so it cannot be sent; rename the file") from error


def error_from_answer(status: int, content: bytes) -> GaiadError:
    """The error an answer of HTTP `status` 400 or above stands for; plain text when it is no ErrorBody."""
    try:
        return error_from_body(msgspec.json.decode(content, type=ErrorBody))
    except msgspec.DecodeError:
        text = content.decode("utf-8", "replace").strip()[:200]
        return GaiadError(f"the daemon answered HTTP {status}: {text or 'without a reason'}")


def error_from_body(body: ErrorBody) -> GaiadError:
    """The error class whose `code` is the body's, with its message; GaiadError for a code this version lacks."""
    kind = _classes_by_code(GaiadError).get(body.code, GaiadError)
    if issubclass(kind, Unavailable):
        return kind(body.message, body.retry_after_s or 1.0)
    return kind(body.message)


def _classes_by_code(base: type[GaiadError]) -> dict[str, type[GaiadError]]:
    found = {base.code: base}
    for kind in base.__subclasses__():
        for code, deeper in _classes_by_code(kind).items():
            found.setdefault(code, deeper)
    return found


def parse_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Server-sent events out of a response's lines; comments (keep-alives) are skipped, several data lines joined."""
    identifier, event, data = "", "", list[str]()
    for line in lines:
        name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            identifier = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif not name and not value and data:
            yield ServerEvent(id=identifier, event=event or "message", data=_decode_data("\n".join(data)))
            event, data = "", []


def _decode_data(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
