"""How a remote server is reached (address, key) and what a failed exchange means: which error, whether to retry.

The key's file is read once, when the model is made; the key is kept out of every message.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gaiad.base.config import ModelConfig
from gaiad.base.errors import BadInput, ConfigError, GaiadError, Unavailable

_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_LONGEST_KEY_FILE = 16_384
_EXCERPT = 200
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


class Access:
    """Address and key of one server. Its repr shows no key."""

    def __init__(self, name: str, config: ModelConfig, environment: Mapping[str, str]) -> None:
        where = f"models.known.{name}"
        self.name, self.model = name, config.model
        if not config.model:
            raise ConfigError(f"{where}.model is empty; name one of the models the server has")
        self.base_url = checked_url(config.base_url, f"{where}.base_url")
        self.key_setting = f"{where}.key_env" if config.key_env else f"{where}.key_file"
        self._key = read_key(where, config, environment)

    @property
    def server(self) -> str:
        """The server as messages name it."""
        return f"{self.name} ({self.base_url})"

    @property
    def fingerprint(self) -> str:
        """Address and model: all that is known of the weights from here."""
        return f"openai:{self.base_url}#{self.model}"

    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def excerpt(self, text: str, limit: int = _EXCERPT) -> str:
        """The first characters in one line, 200 by default, without control characters and without the key."""
        if self._key:
            text = text.replace(self._key, "[key]")
        return " ".join(_UNPRINTABLE.sub(" ", text).split())[:limit]


def checked_url(text: str, where: str) -> str:
    """The address without a slash at its end. Raises ConfigError for anything but a plain http or https address."""
    try:
        parts = urlsplit(text.strip())
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{where} is not a valid address ({error}); write http://host:port/v1") from error
    if "@" in parts.netloc:
        raise ConfigError(f"{where} contains a user name or password; use key_env or key_file instead")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{where} = {text!r} must begin with http:// or https:// and name a host")
    if parts.query or parts.fragment or _UNPRINTABLE.search(text.strip()) or " " in text.strip():
        raise ConfigError(f"{where} = {text!r} must end with the path, such as /v1; remove what follows it")
    return text.strip().rstrip("/")


def read_key(where: str, config: ModelConfig, environment: Mapping[str, str]) -> str:
    """The key from the named variable or file, "" when neither is set. Raises ConfigError, never with the key in it."""
    if config.key_env:
        key, source = environment.get(config.key_env, "").strip(), f"{where}.key_env: variable {config.key_env}"
        if not key:
            raise ConfigError(f"{source} is not set; export it where gaiad is started, or use key_file")
    elif config.key_file:
        path = Path(config.key_file).expanduser()
        key, source = _read_key_file(path, where), f"{where}.key_file: {path}"
    else:
        return ""
    if not _KEY.fullmatch(key):
        raise ConfigError(f"{source} is not a key; it must contain only the key, on one line of printable characters")
    return key


def _read_key_file(path: Path, where: str) -> str:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read(_LONGEST_KEY_FILE)
    except OSError as error:
        raise ConfigError(f"{where}.key_file: {path} cannot be read ({error.strerror}); check the path") from error
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(about.st_mode)
        raise ConfigError(f"{where}.key_file: other users can read {path} (mode {mode:04o}); run: chmod 600 {path}")
    return text.decode("utf-8", "replace").strip()


PASSING = frozenset({429, 500, 502, 503, 504})


class RetryRule(msgspec.Struct, frozen=True, kw_only=True):
    """`tries` in all; waits double from `first_s` up to `longest_s`, and a server may ask for at most `asked_s`."""

    tries: int = 4
    first_s: float = 0.5
    longest_s: float = 8.0
    asked_s: float = 30.0


def wait_s(rule: RetryRule, failures: int, asked_s: float | None, random: Callable[[], float]) -> float | None:
    """Seconds until the next try after so many failures; None when there is none.

    `asked_s` is what the server said with Retry-After, and is honoured with up to a tenth more, so that those it sent
    away do not all come back together. Otherwise half of the doubled wait is certain and half is drawn.
    """
    if failures >= rule.tries or (asked_s is not None and asked_s > rule.asked_s):
        return None
    if asked_s is not None:
        return asked_s * (1.0 + 0.1 * random())
    full = min(rule.longest_s, rule.first_s * 2.0 ** (failures - 1))
    return full * (0.5 + 0.5 * random())


def retry_after_s(header: str, now: datetime) -> float | None:
    """What a Retry-After header asks for, in seconds: a number or a date; None when it says neither."""
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


_USUAL_WAIT_S = 5.0
_LONGEST_WORDS = 500
_NO_KEY = (401, 403)
_NOT_THERE = (404, 405)
_LATER = (408, 425, 429)


class Fault(Exception):
    """One exchange failed. `status` 0 is not an HTTP answer; `again` says that another try may help.

    `setting` blames the settings, `well` clears the server: it works, and this reply was no good all the same. `detail`
    is all that the server said, for learning from it; only `words` may be shown.
    """

    def __init__(
        self,
        words: str,
        *,
        status: int = 0,
        retry_after_s: float | None = None,
        again: bool = False,
        setting: bool = False,
        well: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(words)
        self.words = words
        self.status = status
        self.retry_after_s = retry_after_s
        self.again = again or status in PASSING
        self.setting = setting or status in (*_NO_KEY, *_NOT_THERE) or 300 <= status < 400
        self.well = well or (400 <= status < 500 and not self.setting)
        self.detail = detail


class FaultState(msgspec.Struct, frozen=True):
    """What a fault says of the server: `state` as its status shows it, "" when nothing."""

    state: str
    reason: str


def error_of(fault: Fault, access: Access) -> GaiadError:
    """The error a caller gets: it names the server, never the key."""
    said = f"{access.server}: {access.excerpt(fault.words, _LONGEST_WORDS)}"
    if fault.status in _NO_KEY:
        return ConfigError(f"{said}; check the key in {access.key_setting}")
    if 300 <= fault.status < 400:
        return ConfigError(f"{said}; write the address it points to into base_url")
    if fault.setting:
        return ConfigError(f"{said}; check base_url (it usually ends with /v1) and model")
    if 400 <= fault.status < 500 and fault.status not in _LATER:
        return BadInput(said)
    return Unavailable(said, _USUAL_WAIT_S if fault.retry_after_s is None else fault.retry_after_s)


def verdict_of(fault: Fault) -> FaultState:
    """What to show in the status after a fault; a server that refuses one request or is busy is well."""
    if fault.setting:
        return FaultState("failed", fault.words)
    return FaultState("", "") if fault.well else FaultState("inactive", fault.words)
