"""The Discord bot of a daemon: what is said there becomes a turn, and the turn's blocks go back with receipts.

A turn goes through conversations like any other, for the channel discord_chat, so that it is routed and scrubbed. What
went wrong is told there in general words only; the log and `gaiad status` have the rest. A part of `service`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Protocol

from msgspec import structs

from gaiad.archive.storing.tenant import check_tenant_name
from gaiad.chat_schemas import ChatAnswer, ChatRequest
from gaiad.clock import Clock
from gaiad.config import DiscordConfig
from gaiad.delivery_schemas import Parcel, Receipt
from gaiad.errors import BadInput, ConfigError, DeadlineExceeded, GaiadError, TokenBudgetError
from gaiad.ids import IdMaker
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.logs import get_logger
from gaiad.ports import Call
from gaiad.stopping import Stopping
from gaiad.tasks import TaskGroup
from router.channels.discord import NAME, DiscordChannel, Heard
from router.channels.discord_text import LIMIT, block_messages, with_also, with_sources
from router.deliver import Deliverer, DeliveryLimits

_FOLDER = "deliveries"
_BUSY = "I am busy with other messages; please ask again in a minute."
_ONLY_TEXT = "I can read text only; please write what you want to know."
_NO_ANSWER = "I could not answer that just now; please try again later."
_TOO_SLOW = "That took me too long; please ask again, or ask for less at once."
_TOO_LONG = "That is more than I can take in at once; please ask for less."
_STOPPED = "I was stopped before I had an answer; please ask again."
_NOTHING = "-# there is nothing in the answer that may be shown here"
_CUT = "-# this is too long for Discord; the rest of it is in the memory"
_LAST_WORDS_S = 2.0
_log = get_logger("gaiad.discord")

Note = Callable[[str, str], None]
"""Shows a text under a topic in the status, until it is noted again with ""."""


class Turns(Protocol):
    """The side of conversations."""

    def chat(self, request: ChatRequest, call: Call) -> AsyncGenerator[tuple[str, object], None]: ...


class Bot(Protocol):
    """The side of Discord besides what is sent."""

    async def run(
        self, heard: Callable[[Heard], None], note: Callable[[str], None], connected: Callable[[], None]
    ) -> None: ...

    def hear_no_more(self) -> None: ...

    async def show_typing(self, address: str) -> None: ...


class Discording:
    """One for the daemon."""

    def __init__(
        self, bot: Bot, deliverer: Deliverer, turns: Turns, config: DiscordConfig, ids: IdMaker, note: Note
    ) -> None:
        self._bot = bot
        self._deliverer = deliverer
        self._turns = turns
        self._config = config
        self._ids = ids
        self._note = note
        self._connecting = TaskGroup("discord", lambda task, error: note("discord", f"{task} ended ({error!r})"))
        self._answering = TaskGroup("discord turns", lambda task, error: note("discord_turn", f"{task}: {error!r}"))
        self._under_way: set[str] = set()
        self._closing = False

    async def start(self) -> None:
        """Connect, in the background, and send what waits from an earlier life."""
        await self._deliverer.start()
        told = self._bot.run(self.heard, lambda text: self._note("discord", text), self._deliverer.try_again)
        self._connecting.start("connection", told)

    async def stop(self, grace_s: float) -> None:
        """Hear nothing more, give turns and messages that long, end. What was not sent waits for the next start.

        The last of that time is for the words to those whose turn is cut off.
        """
        self._closing = True
        self._bot.hear_no_more()
        words_s = min(_LAST_WORDS_S, grace_s / 4)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s - words_s):
                await self._answering.wait()
        await self._answering.stop()
        await self._deliverer.stop(words_s)
        await self._connecting.stop()

    def heard(self, heard: Heard) -> None:
        """Something was said; the same message twice is taken once."""
        if self._closing or heard.message_id in self._under_way:
            return
        if not heard.text:
            self._tell(heard, _ONLY_TEXT if heard.attachments else "")
        elif len(self._under_way) >= self._config.turns:
            self._tell(heard, _BUSY)
        else:
            self._under_way.add(heard.message_id)
            self._answering.start(f"turn {heard.message_id}", self._answer(heard))

    def _tell(self, heard: Heard, words: str) -> None:
        if words:
            self._answering.start(f"word {heard.message_id}", self._put_aside(heard, self._words(heard, words)))

    async def _put_aside(self, heard: Heard, parcels: Sequence[Parcel]) -> None:
        """Words beside turns; while much waits they are left out, for the answers need the places."""
        try:
            await self._deliverer.put(parcels, is_aside=True)
        except GaiadError as error:
            _log.info("discord_word_left_out", reason=error.message, message_id=heard.message_id)

    async def _answer(self, heard: Heard) -> None:
        typing = self._connecting.start("typing", self._bot.show_typing(heard.address))
        try:
            answer = await self._turn(heard)
            parcels = self._parcels(heard, answer)
            self._note("discord_turn", "")
        except GaiadError as error:
            _log.warning("discord_turn_failed", code=error.code, reason=error.message, message_id=heard.message_id)
            parcels = self._words(heard, _sorry(error))
        except asyncio.CancelledError:
            await self._put(heard, self._words(heard, _STOPPED))  # it is sent at the next start
            raise
        except Exception:
            await self._put(heard, self._words(heard, _NO_ANSWER))
            raise
        finally:
            typing.cancel()
            self._under_way.discard(heard.message_id)
        await self._put(heard, parcels)

    async def _turn(self, heard: Heard) -> ChatAnswer:
        """Raises as TurnTaker.take."""
        request = ChatRequest(
            message=heard.text,
            session_id=f"discord-{heard.address}",
            channel=NAME,
            idempotency_key=f"discord-{heard.message_id}",
            tenant=self._config.tenant,
        )
        answer: ChatAnswer | None = None
        async with aclosing(self._turns.chat(request, Call(self._config.tenant))) as events:
            async for _, data in events:
                answer = data if isinstance(data, ChatAnswer) else answer
        if answer is None:
            raise GaiadError("the turn ended without an answer")
        return answer

    async def _put(self, heard: Heard, parcels: Sequence[Parcel]) -> None:
        try:
            await self._deliverer.put(parcels)
            self._note("discord_queue", "")
        except GaiadError as error:
            _log.error("discord_not_queued", reason=error.message, message_id=heard.message_id)
            self._note("discord_queue", f"an answer for Discord was not taken up: {error.message}")

    def _parcels(self, heard: Heard, answer: ChatAnswer) -> list[Parcel]:
        """The blocks that the channel may have, in their order, with the sources under the answer.

        No more than may wait at once: what is longer is cut, and says so.
        """
        most = self._config.queue
        longest = most * LIMIT
        parcels: list[Parcel] = []
        blocks = [block for block in answer.blocks if block.text.strip()]
        answers = [number for number, block in enumerate(blocks) if block.marker == "RESPONSE"]
        for number, block in enumerate(blocks):
            messages = block_messages(block.marker, block.text.strip()[:longest], quiet=block.manner == "log")
            if answers and number == answers[-1]:
                messages = with_sources(messages, answer.sources, answer.redacted)
                messages = with_also(messages, answer.also.words if answer.also else "")
            parcels += self._pieces(heard, answer.turn_id, number, block.marker, messages)
        if len(parcels) > most or any(len(block.text.strip()) > longest for block in blocks):
            parcels = [*parcels[: most - 1], structs.replace(parcels[:most][-1], text=_CUT)]
        return parcels or self._pieces(heard, answer.turn_id, 0, "RESPONSE", [_NOTHING])

    def _words(self, heard: Heard, words: str) -> list[Parcel]:
        """Something that is said beside turns."""
        return self._pieces(heard, f"discord-{heard.message_id}", 0, "INTERRUPT", [words])

    def _pieces(self, heard: Heard, turn_id: str, block: int, marker: str, messages: Sequence[str]) -> list[Parcel]:
        return [
            Parcel(
                id=self._ids.make("dlv"),
                tenant=self._config.tenant,
                channel=NAME,
                address=heard.address,
                after=heard.message_id,
                turn_id=turn_id,
                block=block,
                piece=piece,
                marker=marker,
                text=text,
            )
            for piece, text in enumerate(messages)
        ]


class Receipts:
    """What became of turns in channels with an outside, for whoever asks."""

    def __init__(self, log: DeliveryLog) -> None:
        self._log = log

    async def of_turn(self, turn_id: str, call: Call) -> list[Receipt]:
        """One a block and channel, in order; [] when nothing of the turn was sent anywhere."""
        return await self._log.receipts(call.tenant, turn_id)


async def open_discord(
    stack: AsyncExitStack,
    home: Path,
    config: DiscordConfig,
    stopping: Stopping,
    environment: Mapping[str, str],
    clock: Clock,
    turns: Turns,
    note: Note,
) -> Receipts:
    """The receipts, and with `discord.enabled` the bot, both closed by `stack`.

    Raises ConfigError for a tenant that is none, a token that cannot be read, and where discord.py is not installed.
    """
    try:
        check_tenant_name(config.tenant)
    except BadInput as error:
        raise ConfigError(f"discord.tenant: {error.message}") from error
    log = DeliveryLog(home / _FOLDER, clock)
    stack.push_async_callback(log.close)
    if config.enabled:
        channel = DiscordChannel(config, environment)
        limits = DeliveryLimits(timeout_s=config.timeout_s, most_waiting=config.queue)
        deliverer = Deliverer(channel, log, limits, lambda text: note("discord_delivery", text))
        discording = Discording(channel, deliverer, turns, config, IdMaker(clock), note)
        stopping.end_beside(stack, "discord", discording.stop)
        await discording.start()
    return Receipts(log)


def _sorry(error: GaiadError) -> str:
    """What went wrong, without a word of the error: it may name what is not for others."""
    match error:
        case DeadlineExceeded():
            return _TOO_SLOW
        case TokenBudgetError():
            return _TOO_LONG
    return _NO_ANSWER
