"""Where a remote model is and how it is entered: its address checked, its key read, and kept out of every message.

Reads the key's file once, when the model is made.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gaiad.config import ModelConfig
from gaiad.errors import ConfigError

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
        """The first characters in one line, 200 unless told, without control characters and without the key."""
        if self._key:
            text = text.replace(self._key, "[key]")
        return " ".join(_UNPRINTABLE.sub(" ", text).split())[:limit]


def checked_url(text: str, where: str) -> str:
    """The address without a slash at its end. Raises ConfigError for anything but a plain http or https address."""
    try:
        parts = urlsplit(text.strip())
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{where} is no address ({error}); write http://host:port/v1") from error
    if "@" in parts.netloc:
        raise ConfigError(f"{where} holds a user name or password; put the key into key_env or key_file")
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
        raise ConfigError(f"{source} holds no key of printable characters in one line; write the key alone into it")
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
        raise ConfigError(f"{where}.key_file: others may read {path} (mode {mode:04o}); run: chmod 600 {path}")
    return text.decode("utf-8", "replace").strip()
