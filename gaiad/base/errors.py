"""The error tree. A class exists only where a caller acts differently.

    GaiadError                exit 1  HTTP 500   anything gaiad itself reports
    ├── BadInput              exit 2  HTTP 400   the caller can fix it: the message names value and remedy
    │   ├── ConfigError       exit 2  HTTP 400   a setting; names file, key and remedy
    │   ├── PacketRejected    exit 2  HTTP 422   a packet that goes to quarantine, with line and reason
    │   └── TokenBudgetError  exit 1  HTTP 400   a Cognition Packet that no pass can bring within its MTU
    ├── NotFound              exit 3  HTTP 404   no such packet, page, job
    ├── Forbidden             exit 4  HTTP 403   credential does not cover the tenant, host or origin
    ├── Unauthorized          exit 4  HTTP 401   no credential, or an unknown one
    ├── Conflict              exit 1  HTTP 409   state in the way: a running daemon, a newer database
    ├── Unavailable           exit 5  HTTP 503   try again later; carries retry_after_s
    │   ├── DaemonUnreachable exit 5             no daemon answers on the socket
    │   ├── DaemonWentAway    exit 5             it answered, and went away before the call was done
    │   └── WorkerDied        exit 5  HTTP 503   a model child ended; it is being restarted
    ├── DeadlineExceeded      exit 6  HTTP 504   the call's deadline passed
    └── Cancelled             exit 7  HTTP 499   the caller went away or asked to stop

Third-party exceptions are translated at the adapter that meets them, nowhere else.
"""


class GaiadError(Exception):
    """Base of all; `exit_code` for the command line, `http_status` for the API, `code` for machines."""

    exit_code = 1
    http_status = 500
    code = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadInput(GaiadError):
    """The caller's input is wrong; the message names the value and the remedy."""

    exit_code = 2
    http_status = 400
    code = "bad_input"


class ConfigError(BadInput):
    """A setting is wrong; the message names the file, the key and the remedy."""

    code = "bad_config"


class PacketRejected(BadInput):
    """A packet cannot be read; it goes to quarantine. `line` is 1-based, 0 when unknown."""

    http_status = 422
    code = "packet_rejected"

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


class TokenBudgetError(BadInput):
    """A Cognition Packet cannot be brought within its MTU (GCP 4.2). `fields` has name, tokens and limit of each."""

    exit_code = 1
    code = "token_budget"

    def __init__(self, message: str, fields: tuple[tuple[str, int, int], ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields


class NotFound(GaiadError):
    """No such thing in this tenant."""

    exit_code = 3
    http_status = 404
    code = "not_found"


class Unauthorized(GaiadError):
    """No credential, or one nobody issued."""

    exit_code = 4
    http_status = 401
    code = "unauthorized"


class Forbidden(GaiadError):
    """The credential is known and does not cover this."""

    exit_code = 4
    http_status = 403
    code = "forbidden"


class Conflict(GaiadError):
    """Something that already exists is in the way."""

    http_status = 409
    code = "conflict"


class Unavailable(GaiadError):
    """Not now. `retry_after_s` says when trying again makes sense."""

    exit_code = 5
    http_status = 503
    code = "unavailable"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DaemonUnreachable(Unavailable):
    """No daemon answers; the message says how to start one."""

    code = "daemon_unreachable"


class DaemonWentAway(Unavailable):
    """The daemon ended, or was restarted, in the middle of a call; whether it did what was asked is not known."""

    code = "daemon_went_away"


class WorkerDied(Unavailable):
    """A model's child process ended under the call; the supervisor restarts it."""

    code = "worker_died"


class DeadlineExceeded(GaiadError):
    """The call's deadline passed before it finished."""

    exit_code = 6
    http_status = 504
    code = "deadline_exceeded"


class Cancelled(GaiadError):
    """The caller departed or asked to stop."""

    exit_code = 7
    http_status = 499
    code = "cancelled"
