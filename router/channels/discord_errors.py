"""discord.py's errors, and aiohttp's that it lets through, as gaiad's own."""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import discord

from gaiad.errors import BadInput, Forbidden, GaiadError, NotFound, Unavailable

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
