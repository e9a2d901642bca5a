"""The Discord channel: a bot that hears allowed people in configured channels, and sends what it is given to send.

A message in a channel begins a thread, and a thread is a session. Connecting, resuming and rate limits are discord.py's
trade; this keeps a connection alive as long as the daemon lives, and says in words when there is none. The library is
imported when the channel is opened, and not before.
"""

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gaiad.base.channel_ports import IncomingMessage
from gaiad.base.errors import ConfigError, GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.wire.chat import ChatAnswer
from gaiad.wire.council import Parcel
from router.channels.discord_text import LIMIT, block_messages, with_also, with_sources
from router.routing import ChatSettings, convert_settings

if TYPE_CHECKING:
    import discord

    from router.channels.discord_client import DiscordConnection


_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,400}")
_ID = re.compile(r"[1-9]\d{14,19}", re.ASCII)
_LONGEST_FILE = 16_384


class DiscordSettings(ChatSettings, frozen=True):
    """Section [discord]; ids are Discord's, in digits."""

    token_env: str
    token_file: str
    servers: list[str]
    users: list[str]
    channels: list[str]


def read_settings(values: Mapping[str, Any]) -> DiscordSettings:
    """The section, checked. A bot without an allow-list would speak to anybody. Raises ConfigError."""
    settings = convert_settings("discord", values, DiscordSettings)
    if not settings.enabled:
        return settings
    lists = {"servers": settings.servers, "users": settings.users, "channels": settings.channels}
    for key, ids in lists.items():
        if strange := [name for name in ids if not _ID.fullmatch(name)]:
            raise ConfigError(
                f'discord.{key} = {strange[0]!r}: write Discord\'s id, 15 to 20 digits, ["123456789012345678"]'
            )
        if not ids:
            raise ConfigError(
                f"discord.{key} is empty: the bot does not start without an allow-list of servers, users and "
                "channels; add ids, or set discord.enabled = false"
            )
    if bool(settings.token_env) == bool(settings.token_file):
        raise ConfigError("discord.enabled needs discord.token_env or discord.token_file, one of them")
    return settings


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


def allow_list(config: DiscordSettings) -> AllowList:
    """From settings that were checked when they were loaded."""
    return AllowList(
        servers=frozenset(map(int, config.servers)),
        users=frozenset(map(int, config.users)),
        channels=frozenset(map(int, config.channels)),
    )


def read_token(config: DiscordSettings, environment: Mapping[str, str]) -> str:
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
        raise ConfigError(f"{source} holds no token; put the bot's token alone in it, as Discord's page shows it")
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
        raise ConfigError(f"{where} is not a file; name the file with the token")
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(about.st_mode)
        raise ConfigError(f"{where}: others may read it (mode {mode:04o}); run: chmod 600 {path}")
    return text.decode("utf-8", "replace").strip()


_log = get_logger("gaiad.discord")
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_PATIENCE_S = 120.0
_TYPING_EVERY_S = 8.0
NAME: Final = "discord_chat"


def open_bot(settings: ChatSettings, environment: Mapping[str, str]) -> "DiscordChannel":
    """Raises ConfigError for a token that cannot be read, and where discord.py is not installed."""
    assert isinstance(settings, DiscordSettings)
    return DiscordChannel(settings, environment)


class DiscordChannel:
    """The ChatBot port."""

    def __init__(
        self, config: DiscordSettings, environment: Mapping[str, str], patience_s: float = _PATIENCE_S
    ) -> None:
        """A connection that the library does not make within `patience_s` is started again.

        Raises ConfigError for a token that cannot be read, and where discord.py is not installed.
        """
        self._patience_s = patience_s
        self._token = read_token(config, environment)
        self._allowed = allow_list(config)
        try:
            from router.channels import discord_client
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"discord.enabled needs a library that is not there ({error.name}); run: pip install 'gaiad[discord]'"
            ) from error
        discord_client.quiet_library()
        self._library, self._hopeless = discord_client, discord_client.hopeless
        self._connection: DiscordConnection | None = None
        self._is_connected = False
        self._deaf = False

    @property
    def name(self) -> str:
        return NAME

    @property
    def limit(self) -> int:
        return LIMIT

    _patience: asyncio.Timeout
    _heard: Callable[[IncomingMessage], None]
    _note: Callable[[str], None]
    _on_connected: Callable[[], None]

    # -- the connection

    async def run(
        self, heard: Callable[[IncomingMessage], None], note: Callable[[str], None], connected: Callable[[], None]
    ) -> None:
        """Stay connected until this is cancelled, or Discord says that it is of no use."""
        self._heard, self._note, self._on_connected = heard, note, connected
        note("discord is not connected yet")
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._live()
                why = "the connection was ended"
            except Exception as error:  # noqa: BLE001  (shown in status and logged; the library raises what it meets)
                if final := self._hopeless(error):
                    _log.error("discord_given_up", reason=final)
                    note(final)
                    return
                why = error.message if isinstance(error, GaiadError) else f"{type(error).__name__}: {error}"[:200]
            pause_s = _FIRST_PAUSE_S if self._is_connected else pause_s
            self._is_connected = False
            _log.warning("discord_not_connected", reason=why, again_in_s=pause_s)
            note(f"discord cannot be reached ({why}); trying again")
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    async def _live(self) -> None:
        """One client from its log-in to its end; the library's own pauses between tries grow too long."""
        connection = self._library.DiscordConnection(self._hear, self._connected)
        try:
            async with connection, asyncio.timeout(self._patience_s) as self._patience:
                self._connection = connection
                await connection.start(self._token)
        except TimeoutError as error:
            if self._patience.expired():
                raise Unavailable(f"no connection within {self._patience_s:g} s", 0.0) from error
            raise
        finally:
            self._connection = None

    def _connected(self, yes: bool) -> None:
        if yes:
            self._is_connected = True
            self._patience.reschedule(None)
            self._note("")
            self._on_connected()
            _log.info("discord_connected")
        elif self._connection is not None and self._patience.when() is None:  # the library resumes what drops
            self._patience.reschedule(asyncio.get_running_loop().time() + self._patience_s)
            self._note("discord's connection was lost; it is being resumed")

    # -- what is heard

    def hear_no_more(self) -> None:
        """From now on no message begins anything, nor gets a thread."""
        self._deaf = True

    async def _hear(self, message: "discord.Message") -> None:
        if self._deaf or not self._library.is_said(message) or self._connection is None:
            return
        server = message.guild.id if message.guild else 0
        if not self._allowed.knows(server, message.author.id):
            return
        try:
            in_thread, parent = await self._connection.parent_of(message)
        except GaiadError as error:
            _log.warning("discord_place_unknown", reason=error.message)
            return
        if not self._allowed.is_place(message.channel.id, parent):
            return
        address = message.channel.id if in_thread else await self._thread_for(self._connection, message)
        self._heard(
            IncomingMessage(
                message_id=str(message.id),
                address=str(address),
                text=self._without_mention(message),
                attachments=len(message.attachments),
            )
        )

    async def _thread_for(self, connection: "DiscordConnection", message: "discord.Message") -> int:
        """Where it is answered: a thread about it, or the channel itself where no thread can be made."""
        try:
            return await connection.open_thread(message)
        except GaiadError as error:
            _log.warning("discord_thread_not_made", reason=error.message)
            return message.channel.id

    def _without_mention(self, message: "discord.Message") -> str:
        """What was said, people and channels by name; that the bot was called by its name is not part of it."""
        text = message.clean_content.strip()
        me = self._connection.user if self._connection else None
        names = [me.name, me.display_name] if me else []
        for name in names:
            text = text.removeprefix(f"@{name}").strip()
        return text

    # -- what is sent

    async def send(self, parcel: Parcel) -> str:
        """Discord's id of the message; the same parcel sent again within minutes is known there by its nonce."""
        nonce = sha256(parcel.id.encode()).hexdigest()[:24]
        reply_to = int(parcel.after) if parcel.after and parcel.piece == parcel.block == 0 else 0
        thread_of_it = parcel.address == parcel.after  # a thread has the id of the message that it is about
        return await self._there().say(int(parcel.address), parcel.text, nonce, 0 if thread_of_it else reply_to)

    async def find(self, parcel: Parcel, known: Collection[str]) -> str:
        return await self._there().said(int(parcel.address), parcel.text, int(parcel.after or 0), known)

    async def show_typing(self, address: str) -> None:
        """Until this is cancelled; a sign only, so a failure does not matter."""
        while True:
            with contextlib.suppress(GaiadError):
                await self._there().show_typing(int(address))
            await asyncio.sleep(_TYPING_EVERY_S)

    def block_messages(self, marker: str, text: str, *, quiet: bool) -> list[str]:
        return block_messages(marker, text, quiet=quiet)

    def with_sources(self, messages: Sequence[str], answer: ChatAnswer) -> list[str]:
        found = with_sources(messages, answer.sources, answer.redacted)
        return with_also(found, answer.also.words if answer.also else "")

    def _there(self) -> "DiscordConnection":
        if self._connection is None or self._connection.user is None:
            raise Unavailable("discord is not connected", 0.0)
        return self._connection
