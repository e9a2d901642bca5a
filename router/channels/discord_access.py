"""Who may speak to the bot, and the bot's token: read from its place once, and kept out of every message."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gaiad.config import DiscordConfig
from gaiad.errors import ConfigError

_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,400}")
_LONGEST_FILE = 16_384


class AllowList(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of servers, users and channels; all three have to fit."""

    servers: frozenset[int]
    users: frozenset[int]
    channels: frozenset[int]

    def knows(self, server: int, user: int) -> bool:
        """Whether this user is heard on this server at all."""
        return server in self.servers and user in self.users

    def is_place(self, channel: int, parent: int) -> bool:
        """Whether it answers there; `parent` is a thread's channel, 0 for none."""
        return channel in self.channels or (bool(parent) and parent in self.channels)


def allow_list(config: DiscordConfig) -> AllowList:
    """From settings that were checked when they were loaded."""
    return AllowList(
        servers=frozenset(map(int, config.servers)),
        users=frozenset(map(int, config.users)),
        channels=frozenset(map(int, config.channels)),
    )


def read_token(config: DiscordConfig, environment: Mapping[str, str]) -> str:
    """The token from the variable or file that the settings name. Raises ConfigError, never with the token in it."""
    if config.token_env:
        source = f"discord.token_env: variable {config.token_env}"
        token = environment.get(config.token_env, "").strip()
        if not token:
            raise ConfigError(f"{source} is not set; export it where gaiad is started, or use token_file")
    else:
        path = Path(config.token_file).expanduser()
        source, token = f"discord.token_file: {path}", _read_private(path).removeprefix("Bot ").strip()
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"{source} holds no token; write the bot's token alone into it, as Discord's page shows it")
    return token


def _read_private(path: Path) -> str:
    where = f"discord.token_file: {path}"
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read(_LONGEST_FILE)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({error.strerror}); check the path") from error
    if not stat.S_ISREG(about.st_mode):
        raise ConfigError(f"{where} is no file; name one with the token in it")
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(about.st_mode)
        raise ConfigError(f"{where}: others may read it (mode {mode:04o}); run: chmod 600 {path}")
    return text.decode("utf-8", "replace").strip()
