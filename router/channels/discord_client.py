"""One connection to Discord: discord.py's client with what gaiad needs of it, and nothing cached that it does not.

Imported only when the channel is enabled. Warnings of the library go to gaiad's log; what it writes at lower levels may
hold what people said, and stays out.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import discord

from gaiad.logs import get_logger
from router.channels.discord_errors import translated
from router.channels.discord_text import thread_name, without_call

_log = get_logger("gaiad.discord")
_HISTORY = 500
_HAS_A_THREAD = 160004
_LONGEST_RATE_LIMIT_S = 60.0

Hears = Callable[[discord.Message], Awaitable[None]]


class Connection(discord.Client):
    """Hears messages and says whether it is connected; sends without looking anything up first."""

    def __init__(self, hears: Hears, connected: Callable[[bool], None]) -> None:
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.message_content = True
        super().__init__(
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_ratelimit_timeout=_LONGEST_RATE_LIMIT_S,
        )
        self._hears = hears
        self._connected = connected

    async def on_connect(self) -> None:
        self._connected(True)

    async def on_resumed(self) -> None:
        self._connected(True)

    async def on_disconnect(self) -> None:
        self._connected(False)

    async def on_message(self, message: discord.Message) -> None:
        message.content = without_call(message.content, self.user.id if self.user else 0)  # a nickname names nobody
        await self._hears(message)

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        _log.error("discord_event_failed", event_name=event_method, exc_info=True)

    async def say(self, address: int, text: str, nonce: str, reply_to: int) -> str:
        """The id of the new message, or of the one that already came with this nonce a moment ago."""
        place = self.get_partial_messageable(address)
        reference = None
        if reply_to:
            reference = discord.MessageReference(message_id=reply_to, channel_id=address, fail_if_not_exists=False)
        with translated("a message"):
            if reference is None:
                sent = await place.send(text, nonce=nonce, suppress_embeds=True)
            else:
                sent = await place.send(text, nonce=nonce, suppress_embeds=True, reference=reference)
        return str(sent.id)

    async def said(self, address: int, text: str, after: int, known: Collection[str]) -> str:
        """The id of a message of our own with this text after that one, "" for none; `known` ones do not count."""
        me = self.user.id if self.user else 0
        place = self.get_partial_messageable(address)
        with translated("a look at what was sent"):
            async for message in place.history(limit=_HISTORY, after=discord.Object(after), oldest_first=True):
                mine = message.author.id == me and message.content.strip() == text.strip()
                if mine and str(message.id) not in known:
                    return str(message.id)
        return ""

    async def show_typing(self, address: int) -> None:
        """For the next ten seconds."""
        with translated("a sign of writing"):
            await self.http.send_typing(address)

    async def open_thread(self, message: discord.Message) -> int:
        """The id of a thread about the message, also of one that there is already. Raises as `say`."""
        with translated("a thread"):
            try:
                name = thread_name(message.clean_content)
                return (await message.create_thread(name=name, auto_archive_duration=1440)).id
            except discord.HTTPException as error:
                if error.code != _HAS_A_THREAD:
                    raise
        return message.id  # which a message's thread has too

    async def parent_of(self, message: discord.Message) -> tuple[bool, int]:
        """Whether the message stands in a thread, and in which channel that is (0 for none)."""
        channel: object = message.channel
        if isinstance(channel, discord.PartialMessageable):  # a thread that was put away, or began before we came
            with translated("a look at a thread"):
                channel = await self.fetch_channel(message.channel.id)
        if isinstance(channel, discord.Thread):
            return True, channel.parent_id
        return False, 0


def is_said(message: discord.Message) -> bool:
    """Whether a person said it on a server: no bot, no webhook, no notice of Discord's."""
    ordinary = message.type in (discord.MessageType.default, discord.MessageType.reply)
    return ordinary and message.guild is not None and not message.author.bot and message.webhook_id is None


class _ToOurLog(logging.Handler):
    """The library's warnings, without what it adds of requests and payloads."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = {} if error is None else {"why": f"{type(error).__name__}: {error}"[:200]}
        _log.warning("discord_says", text=record.getMessage()[:300], **why)


def quiet_library() -> None:
    """Send what discord.py logs to gaiad's log, from warnings on; voice is not used and not worth a warning."""
    library = logging.getLogger("discord")
    library.setLevel(logging.WARNING)
    library.propagate = False
    library.handlers = [_ToOurLog()]
    discord.VoiceClient.warn_nacl = False
    discord.VoiceClient.warn_dave = False
