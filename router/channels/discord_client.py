"""One connection to Discord: discord.py's client with what gaiad needs of it, and nothing cached that it does not.

Imported only when the channel is enabled. Warnings of the library go to gaiad's log; what it writes at lower levels may
hold what people said, and stays out.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import discord

from gaiad.base.errors import BadInput, Forbidden, GaiadError, NotFound, Unavailable
from gaiad.base.logs import get_logger
from router.channels.discord_text import thread_name, without_call

_AUTHENTICATION_FAILED = 4004
_INTENTS_NOT_ALLOWED = 4014
_RATE_LIMITED, _UNAUTHORIZED = 429, 401
Failures = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError)
"""What a call of the library may end with; RuntimeError when the client was closed while it waited inside the call."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises Unavailable for what may go well another time; Forbidden, NotFound, BadInput for what never will."""
    try:
        yield
    except Failures as error:
        raise as_ours(error, doing) from error


def as_ours(error: BaseException, doing: str) -> GaiadError:
    """In words; `doing` is what did not work, as `a message`."""
    match error:
        case discord.RateLimited():
            return Unavailable(f"Discord allows {doing} in {error.retry_after:.0f} s", error.retry_after)
        case discord.Forbidden():
            return Forbidden(f"Discord does not allow {doing} ({error.text}); give the bot the permission there")
        case discord.NotFound():
            return NotFound(f"Discord has no place for {doing} ({error.text}); it was deleted, or the bot is not there")
        case discord.HTTPException():
            return _of_status(error, doing)
    return Unavailable(f"Discord cannot be reached for {doing} ({_short(error)})", 0.0)


def hopeless(error: BaseException) -> str:
    """Why trying again would not help, and what to do; "" when it might."""
    code = error.code if isinstance(error, discord.ConnectionClosed) else 0
    if isinstance(error, discord.LoginFailure) or code == _AUTHENTICATION_FAILED:
        return "Discord does not take the bot's token; put the right one in its place and restart gaiad"
    if isinstance(error, discord.PrivilegedIntentsRequired) or code == _INTENTS_NOT_ALLOWED:
        return (
            "Discord does not let the bot read messages; switch on its Message Content Intent (Discord's developer "
            "portal, Bot) and restart gaiad"
        )
    return ""


def _of_status(error: discord.HTTPException, doing: str) -> GaiadError:
    if error.status in (_RATE_LIMITED, _UNAUTHORIZED) or error.status >= 500:
        return Unavailable(f"Discord answers {error.status} to {doing}", 0.0)
    return BadInput(f"Discord refuses {doing}: {error.status} {_short(error)}")


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:200]


_log = get_logger("gaiad.discord")
_HISTORY = 500
_HAS_A_THREAD = 160004
_LONGEST_RATE_LIMIT_S = 60.0
Hears = Callable[[discord.Message], Awaitable[None]]


class DiscordConnection(discord.Client):
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
        """Whether the message is in a thread, and in which channel that is (0 for none)."""
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
