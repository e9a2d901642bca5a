"""The chat channels that the daemon opens: what is said there becomes a turn, and its blocks go back with receipts.

A turn goes through conversations like any other, so that it is routed and scrubbed for its channel. What went wrong is
said there in general words only; the log and `gaiad status` have the rest. Which channels there are is the table's
(gaiad.base.channels); what is special to one is in its module in router/channels.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial

from msgspec import structs

from gaiad.base.channel_ports import ChatBot, IncomingMessage
from gaiad.base.clock import Clock
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, ConfigError, DeadlineExceeded, GaiadError, TokenBudgetError
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import Stopping, TaskGroup
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.service.conversations import Conversations
from gaiad.store.home_databases import HomeDatabases, check_tenant_name
from gaiad.wire.chat import ChatAnswer, ChatRequest
from gaiad.wire.council import Parcel, Receipt
from router.deliver import Deliverer, DeliveryLimits
from router.routing import ChatSettings, chat_settings, open_bot

_BUSY = "I am busy with other messages; please ask again in a minute."
_ONLY_TEXT = "I can read text only; please write what you want to know."
_NO_ANSWER = "I could not answer that just now; please try again later."
_TOO_SLOW = "That took me too long; please ask again, or ask for less at once."
_TOO_LONG = "That is more than I can take in at once; please ask for less."
_STOPPED = "I was stopped before I had an answer; please ask again."
_NOTHING = "the answer has no part that may be shown here"
_CUT = "this is too long for one answer here; the rest of it is in the memory"
_LAST_WORDS_S = 2.0
_log = get_logger("gaiad.channels")

Note = Callable[[str, str], None]
"""Shows a text under a topic in the status, until it is noted again with ""."""


class ChatChannel:
    """One open channel. `section` names it in the status, in sessions and in keys."""

    def __init__(
        self,
        section: str,
        bot: ChatBot,
        deliverer: Deliverer,
        turns: Conversations,
        settings: ChatSettings,
        ids: IdMaker,
        note: Note,
    ) -> None:
        self._section = section
        self._bot = bot
        self._deliverer = deliverer
        self._turns = turns
        self._settings = settings
        self._ids = ids
        self._note = note
        self._connecting = TaskGroup(section, lambda task, error: note(section, f"{task} ended ({error!r})"))
        self._answering = TaskGroup(
            f"{section} turns", lambda task, error: note(f"{section}_turn", f"{task}: {error!r}")
        )
        self._under_way: set[str] = set()
        self._closing = False

    async def start(self) -> None:
        """Connect, in the background, and send what waits from an earlier life."""
        await self._deliverer.start()
        told = self._bot.run(self.heard, lambda text: self._note(self._section, text), self._deliverer.try_again)
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

    def heard(self, heard: IncomingMessage) -> None:
        """Something was said; the same message twice is taken once."""
        if self._closing or heard.message_id in self._under_way:
            return
        if not heard.text:
            self._tell(heard, _ONLY_TEXT if heard.attachments else "")
        elif len(self._under_way) >= self._settings.turns:
            self._tell(heard, _BUSY)
        else:
            self._under_way.add(heard.message_id)
            self._answering.start(f"turn {heard.message_id}", self._answer(heard))

    def _tell(self, heard: IncomingMessage, words: str) -> None:
        if words:
            self._answering.start(f"word {heard.message_id}", self._put_aside(heard, self._words(heard, words)))

    async def _put_aside(self, heard: IncomingMessage, parcels: Sequence[Parcel]) -> None:
        """Words beside turns; while much waits they are left out, for the answers need the places."""
        try:
            await self._deliverer.put(parcels, is_aside=True)
        except GaiadError as error:
            _log.info(
                "channel_word_left_out", channel=self._bot.name, reason=error.message, message_id=heard.message_id
            )

    async def _answer(self, heard: IncomingMessage) -> None:
        typing = self._connecting.start("typing", self._bot.show_typing(heard.address))
        try:
            answer = await self._turn(heard)
            parcels = self._parcels(heard, answer)
            self._note(f"{self._section}_turn", "")
        except GaiadError as error:
            _log.warning(
                "channel_turn_failed",
                channel=self._bot.name,
                code=error.code,
                reason=error.message,
                message_id=heard.message_id,
            )
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

    async def _turn(self, heard: IncomingMessage) -> ChatAnswer:
        """Raises as TurnTaker.take."""
        request = ChatRequest(
            message=heard.text,
            session_id=f"{self._section}-{heard.address}",
            channel=self._bot.name,
            idempotency_key=f"{self._section}-{heard.message_id}",
            tenant=self._settings.tenant,
        )
        answer: ChatAnswer | None = None
        async with aclosing(self._turns.chat(request, RequestContext(self._settings.tenant))) as events:
            async for _, data in events:
                answer = data if isinstance(data, ChatAnswer) else answer
        if answer is None:
            raise GaiadError("the turn ended without an answer")
        return answer

    async def _put(self, heard: IncomingMessage, parcels: Sequence[Parcel]) -> None:
        try:
            await self._deliverer.put(parcels)
            self._note(f"{self._section}_queue", "")
        except GaiadError as error:
            _log.error("channel_not_queued", channel=self._bot.name, reason=error.message, message_id=heard.message_id)
            self._note(f"{self._section}_queue", f"an answer for {self._section} could not be queued: {error.message}")

    def _parcels(self, heard: IncomingMessage, answer: ChatAnswer) -> list[Parcel]:
        """The blocks that the channel may have, in their order, with the sources under the answer.

        No more than may wait at once: what is longer is cut, and says so.
        """
        most = self._settings.queue
        longest = most * self._bot.limit
        parcels: list[Parcel] = []
        blocks = [block for block in answer.blocks if block.text.strip()]
        answers = [number for number, block in enumerate(blocks) if block.marker == "RESPONSE"]
        for number, block in enumerate(blocks):
            messages = self._bot.block_messages(block.marker, block.text.strip()[:longest], quiet=block.manner == "log")
            if answers and number == answers[-1]:
                messages = self._bot.with_sources(messages, answer)
            parcels += self._pieces(heard, answer.turn_id, number, block.marker, messages)
        if len(parcels) > most or any(len(block.text.strip()) > longest for block in blocks):
            parcels = [*parcels[: most - 1], structs.replace(parcels[:most][-1], text=self._quiet(_CUT))]
        return parcels or self._pieces(heard, answer.turn_id, 0, "RESPONSE", [self._quiet(_NOTHING)])

    def _quiet(self, words: str) -> str:
        return self._bot.block_messages("RESPONSE", words, quiet=True)[0]

    def _words(self, heard: IncomingMessage, words: str) -> list[Parcel]:
        """Something that is said beside turns."""
        return self._pieces(heard, f"{self._section}-{heard.message_id}", 0, "INTERRUPT", [words])

    def _pieces(
        self, heard: IncomingMessage, turn_id: str, block: int, marker: str, messages: Sequence[str]
    ) -> list[Parcel]:
        return [
            Parcel(
                id=self._ids.make("dlv"),
                tenant=self._settings.tenant,
                channel=self._bot.name,
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
    """What became of turns in channels with an outside, for whoever asks. `deliverers` are those of open channels."""

    def __init__(self, log: DeliveryLog, deliverers: Sequence[Deliverer] = ()) -> None:
        self._log = log
        self._deliverers = deliverers

    async def look_again(self) -> None:
        """After a restore: deliver what waits in the restored tables, unless it is out already."""
        await self._log.look_first()
        for deliverer in self._deliverers:
            await deliverer.start()

    async def of_turn(self, turn_id: str, call: RequestContext) -> list[Receipt]:
        """One a block and channel, in order; [] when nothing of the turn was sent anywhere."""
        return await self._log.receipts(call.tenant, turn_id)


async def open_chat_channels(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    config: Config,
    stopping: Stopping,
    environment: Mapping[str, str],
    clock: Clock,
    turns: Conversations,
    note: Note,
) -> Receipts:
    """The receipts, and a bot for each channel that its section enables, all closed by `stack`.

    Raises ConfigError for an invalid tenant and for what a channel's module refuses: a token, a missing library.
    """
    log = DeliveryLog(databases, clock)
    deliverers: list[Deliverer] = []
    for section, settings in chat_settings(config).items():
        _check_tenant(section, settings.tenant)
        if settings.enabled:
            bot = open_bot(section, settings, environment)
            limits = DeliveryLimits(timeout_s=settings.timeout_s, most_waiting=settings.queue)
            deliverer = Deliverer(bot, log, limits, partial(note, f"{section}_delivery"))
            deliverers.append(deliverer)
            channel = ChatChannel(section, bot, deliverer, turns, settings, IdMaker(clock), note)
            stopping.end_beside(stack, section, channel.stop)
            await channel.start()
    return Receipts(log, deliverers)


def _check_tenant(section: str, tenant: str) -> None:
    try:
        check_tenant_name(tenant)
    except BadInput as error:
        raise ConfigError(f"{section}.tenant: {error.message}") from error


def _sorry(error: GaiadError) -> str:
    """What went wrong, without a word of the error: it may name what is not for others."""
    match error:
        case DeadlineExceeded():
            return _TOO_SLOW
        case TokenBudgetError():
            return _TOO_LONG
    return _NO_ANSWER
