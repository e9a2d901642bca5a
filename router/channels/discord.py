"""The Discord channel: a bot that hears allowed people in configured channels, and sends what it is given to send.

A message in a channel begins a thread, and a thread is a session. Connecting, resuming and rate limits are discord.py's
trade; this keeps a connection alive as long as the daemon lives, and says in words when there is none. The library is
imported when the channel is opened, and not before.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from gaiad.config import DiscordConfig
from gaiad.delivery_schemas import Parcel
from gaiad.errors import ConfigError, GaiadError, Unavailable
from gaiad.logs import get_logger
from router.channels.discord_access import allow_list, read_token

if TYPE_CHECKING:
    import discord

    from router.channels.discord_client import Connection

_log = get_logger("gaiad.discord")
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_PATIENCE_S = 120.0
_TYPING_EVERY_S = 8.0
NAME: Final = "discord_chat"


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What an allowed person said: where an answer goes (`address`), and after which message."""

    message_id: str
    address: str
    text: str
    attachments: int = 0


class DiscordChannel:
    """The Channel port. `heard` is called with each message, `note` with what is wrong, "" when nothing is."""

    def __init__(self, config: DiscordConfig, environment: Mapping[str, str], patience_s: float = _PATIENCE_S) -> None:
        """A connection that the library does not bring about within `patience_s` is begun anew.

        Raises ConfigError for a token that cannot be read, and where discord.py is not installed.
        """
        self._patience_s = patience_s
        self._token = read_token(config, environment)
        self._allowed = allow_list(config)
        try:
            from router.channels import discord_client, discord_errors
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"discord.enabled needs a library that is not there ({error.name}); run: pip install 'gaiad[discord]'"
            ) from error
        discord_client.quiet_library()
        self._library, self._hopeless = discord_client, discord_errors.hopeless
        self._connection: Connection | None = None
        self._is_connected = False
        self._deaf = False

    @property
    def name(self) -> str:
        return NAME

    _patience: asyncio.Timeout
    _heard: Callable[[Heard], None]
    _note: Callable[[str], None]
    _on_connected: Callable[[], None]

    # -- the connection

    async def run(
        self, heard: Callable[[Heard], None], note: Callable[[str], None], connected: Callable[[], None]
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
        connection = self._library.Connection(self._hear, self._connected)
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
            Heard(
                message_id=str(message.id),
                address=str(address),
                text=self._without_mention(message),
                attachments=len(message.attachments),
            )
        )

    async def _thread_for(self, connection: "Connection", message: "discord.Message") -> int:
        """Where it is answered: a thread about it, or the channel itself where no thread can be made."""
        try:
            return await connection.open_thread(message)
        except GaiadError as error:
            _log.warning("discord_thread_not_made", reason=error.message)
            return message.channel.id

    def _without_mention(self, message: "discord.Message") -> str:
        """What was said, people and channels by name; that the bot was called by its name is no part of it."""
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
        """Until this is cancelled; a sign only, so that it fails is no matter."""
        while True:
            with contextlib.suppress(GaiadError):
                await self._there().show_typing(int(address))
            await asyncio.sleep(_TYPING_EVERY_S)

    def _there(self) -> "Connection":
        if self._connection is None or self._connection.user is None:
            raise Unavailable("discord is not connected", 0.0)
        return self._connection
