"""The bot against a stand-in of Discord, with the real library: heard, answered, cut, resent, resumed, and kept out."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec
import pytest

from gaiad.base.channel_ports import IncomingMessage
from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.errors import DeadlineExceeded, Unavailable
from gaiad.base.ids import IdMaker
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.service.chat_channels import ChatChannel
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.chat import ChatAnswer, ChatBlock, HistoryNote
from router.channels.discord import DiscordChannel, read_settings
from router.deliver import Deliverer, DeliveryLimits
from tests.makers.discord_server import (
    ALLOWED,
    BOT,
    CHANNEL,
    SERVER,
    STRANGER,
    TOKEN,
    DiscordServer,
    Fault,
    rate_limited,
    user,
)
from tests.makers.waiting import until

SETTINGS = (
    "discord.enabled=true",
    "discord.token_env=THE_TOKEN",
    f'discord.servers=["{SERVER}"]',
    f'discord.users=["{ALLOWED}"]',
    f'discord.channels=["{CHANNEL}"]',
    "discord.turns=2",
)
LIMITS = DeliveryLimits(timeout_s=2.0, most_waiting=50, first_pause_s=0.02, longest_pause_s=0.05)


def settings():
    return read_settings(load_config(environment={}, assignments=SETTINGS).channels["discord"])


def answered(text, turn_id="turn_1", blocks=(), sources=()):
    return ChatAnswer(
        session_id="s",
        turn_id=turn_id,
        packet_id="cog_1",
        blocks=[ChatBlock(marker="RESPONSE", text=text), *blocks],
        answer=text,
        sources=list(sources),
        status="SUCCESS",
        engine="scripted",
        persona="default",
        history=HistoryNote(sought=False, why="no"),
        timings={},
        tokens={},
    )


class Council:
    """Says what `reply` gives for a request; `asked` has the requests."""

    def __init__(self):
        self.asked = []
        self.reply = lambda request: answered(f"You said: {request.message}", turn_id=request.idempotency_key)
        self.hold = asyncio.Event()
        self.hold.set()

    async def chat(self, request, call):
        self.asked.append(request)
        yield "turn", {"turn_id": "t"}
        await self.hold.wait()
        made = self.reply(request)
        if isinstance(made, Exception):
            raise made
        yield "done", made


class House:
    """A bot with its log and what it notes."""

    def __init__(self, folder, council):
        self.council, self.folder = council, folder
        self.notes = {}

    async def open(self, limits=LIMITS, patience_s=60.0):
        self.log = DeliveryLog(HomeDatabases(self.folder), SystemClock())
        self.channel = DiscordChannel(settings(), {"THE_TOKEN": TOKEN}, patience_s)
        self.deliverer = Deliverer(self.channel, self.log, limits, lambda text: self.note("discord_delivery", text))
        ids = IdMaker(SystemClock())
        self.bot = ChatChannel("discord", self.channel, self.deliverer, self.council, settings(), ids, self.note)
        await self.bot.start()

    def note(self, topic, text):
        self.notes[topic] = text

    @property
    def trouble(self):
        return " ".join(filter(None, self.notes.values()))

    async def close(self):
        await self.bot.stop(0.2)
        self.log._databases.close()


@pytest.fixture
async def server():
    made = DiscordServer()
    await made.start()
    with made.in_place():
        yield made
    await made.stop()


@pytest.fixture
async def council():
    return Council()


@asynccontextmanager
async def running(folder, council, limits=LIMITS, patience_s=60.0):
    house = House(folder, council)
    await house.open(limits, patience_s)
    try:
        yield house
    finally:
        await house.close()


@pytest.fixture
async def house(tmp_path, server, council):
    async with running(tmp_path, council) as opened:
        await until(lambda: opened.notes.get("discord") == "" and server.identified)
        await asyncio.sleep(0.05)
        yield opened


async def test_a_message_begins_a_thread_that_is_a_session_and_is_answered_there(server, council, house):
    council.hold.clear()
    first = await server.say("Where is the cat?")
    await until(lambda: server.typing)
    council.hold.set()
    await until(lambda: server.texts(first))
    assert server.threads[first]["name"] == "Where is the cat?"
    assert server.texts(first) == ["You said: Where is the cat?"]
    assert server.typing == [first]
    second = await server.say("And now?", channel=first)
    await until(lambda: len(server.texts(first)) == 2)
    assert list(server.threads) == [first]
    asked = [(one.session_id, one.channel, one.idempotency_key, one.tenant) for one in council.asked]
    assert asked == [
        (f"discord-{first}", "discord_chat", f"discord-{first}", "local"),
        (f"discord-{first}", "discord_chat", f"discord-{second}", "local"),
    ]
    assert house.trouble == ""


async def test_strangers_other_servers_other_channels_bots_and_notices_are_not_heard(server, council, house):
    await server.say("let me in", by=STRANGER)
    await server.say("from elsewhere", channel="201")
    await server.say("from another server", guild_id="101")
    await server.say("a bot", author=user(ALLOWED, "x", bot=True))
    await server.say("a hook", webhook_id="77")
    await server.say("pinned", type=6)
    known = await server.say("hello")
    await until(lambda: server.texts(known))
    assert [one.message for one in council.asked] == ["hello"]
    assert list(server.threads) == [known]


async def test_it_asks_for_no_more_than_it_needs_and_pings_nobody(server, house):
    assert server.intents == (1 << 0) | (1 << 9) | (1 << 15)  # servers, messages on them, what is in them
    thread = await server.say("@everyone <@11> hi")
    await until(lambda: server.texts(thread))
    (post,) = server.posts
    assert post["allowed_mentions"] == {"parse": []}
    assert post["flags"] & 4  # no previews: what a link says is fetched by nobody
    assert post["enforce_nonce"]
    assert len(post["nonce"]) <= 25


async def test_a_long_answer_comes_in_several_messages_with_its_sources_and_one_receipt(server, council, house):
    text = "\n\n".join(f"Paragraph {n}. {'Words and words. ' * 30}".strip() for n in range(9))
    verdict = ChatBlock(marker="VERIFY", text="It holds.")
    council.reply = lambda request: answered(text, blocks=[verdict], sources=["tp-1"])
    thread = await server.say("tell me")
    await until(lambda: len(server.texts(thread)) == 4)
    said = server.texts(thread)
    assert all(len(one) <= 2000 for one in said)
    assert said[2].endswith("\n-# sources: `tp-1`")
    assert said[3] == "-# verify\nIt holds."
    assert "\n\n".join(said[:3]).removesuffix("\n-# sources: `tp-1`") == text
    await settled(house)
    answer, verify = await house.log.receipts("local", "turn_1")
    assert (answer.state, answer.pieces, len(answer.outside_ids)) == ("delivered", 3, 3)
    assert (verify.marker, verify.state) == ("VERIFY", "delivered")


async def test_an_answer_that_is_longer_than_what_may_wait_is_cut_and_says_so(server, council, house):
    council.reply = lambda request: answered("word " * 100_000)
    house.bot._settings = msgspec.structs.replace(settings(), queue=3)
    thread = await server.say("tell me everything")
    await until(lambda: len(server.texts(thread)) == 3)
    assert server.texts(thread)[2] == "-# this is too long for one answer here; the rest of it is in the memory"
    assert house.trouble == ""


async def test_the_bots_name_on_the_server_is_no_part_of_a_question(server, council, house):
    nick = {"nick": "Oracle", "roles": [], "joined_at": "2025-01-01T00:00:00+00:00", "deaf": False, "mute": False}
    called = [user(BOT, "gaiad", bot=True) | {"member": nick | {"flags": 0}}]
    thread = await server.say(f"<@{BOT}> who keeps it, <@!{BOT}>?", mentions=called)
    await until(lambda: server.texts(thread))
    assert [one.message for one in council.asked] == ["who keeps it, @Oracle?"]
    assert server.threads[thread]["name"] == "who keeps it, @Oracle?"


async def settled(house):
    for _ in range(6000):
        if not await house.log.waiting("discord_chat") and not house.deliverer._lines:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("messages still wait")


@pytest.mark.parametrize(
    "fault",
    [Fault(drop="before"), Fault(drop="after"), Fault(503), rate_limited(0.1)],
    ids=["no answer", "answer lost", "out of order", "rate limited"],
)
async def test_whatever_goes_wrong_with_a_post_it_is_there_once(server, house, fault):
    server.faults = [fault]
    thread = await server.say("hello")
    await until(lambda: server.texts(thread))
    await settled(house)
    assert server.texts(thread) == ["You said: hello"]
    (receipt,) = await house.log.receipts("local", f"discord-{thread}")
    assert receipt.state == "delivered"
    assert house.trouble == ""


async def test_an_answer_that_never_comes_is_given_up_and_looked_for(server, council, tmp_path):
    limits = msgspec.structs.replace(LIMITS, timeout_s=0.3)
    async with running(tmp_path, council, limits) as house:
        await until(lambda: house.notes.get("discord") == "")
        server.faults = [Fault(wait_s=3.0)]
        thread = await server.say("hello")
        await until(lambda: server.texts(thread))
        await settled(house)
        assert server.texts(thread) == ["You said: hello"]
        assert len(server.posts) == 1


async def test_what_discord_forbids_is_refused_with_the_reason_and_the_next_is_sent(server, house):
    server.faults = [Fault(403, body={"message": "Missing Permissions", "code": 50013})]
    first = await server.say("one")
    await until(lambda: len(server.posts) == 1)
    second = await server.say("two")
    await until(lambda: server.texts(second))
    await settled(house)
    (receipt,) = await house.log.receipts("local", f"discord-{first}")
    assert receipt.state == "refused"
    assert "Missing Permissions" in receipt.reason


async def test_a_dropped_connection_is_resumed_and_what_was_said_meanwhile_is_heard(server, house):
    await server.drop()
    missed = await server.say("while you were away")
    await until(lambda: server.texts(missed))
    assert (server.identified, server.resumed) == (1, 1)
    await server.ask_to_reconnect()
    await until(lambda: server.resumed == 2)
    await until(lambda: house.notes["discord"] == "")


async def test_a_session_that_discord_forgot_is_begun_anew(server, council, house, monkeypatch):
    monkeypatch.setattr("discord.Client.before_identify_hook", at_once)  # the library waits five seconds there
    server.forget_sessions = True
    await server.drop()
    await until(lambda: server.identified == 2 and house.notes["discord"] == "")
    await asyncio.sleep(0.1)
    thread = await server.say("hello again")
    await until(lambda: server.texts(thread))
    assert server.resumed == 0


async def at_once(self, shard_id, *, initial=False):
    pass


async def test_messages_keep_to_the_limit_that_discord_states(server, council, house):
    server.every_s = 0.3
    council.reply = lambda request: answered("\n\n".join("word " * 350 for _ in range(3)))
    thread = await server.say("tell me much")
    await until(lambda: len(server.texts(thread)) == 3)
    times = [post["at"] for post in server.posts]
    assert len(times) == 3
    assert all(later - earlier >= 0.29 for earlier, later in pairwise(times))


async def test_heartbeats_are_sent(server, house):
    await until(lambda: server.beats >= 2)


async def test_answers_wait_through_an_outage_and_a_restart_and_come_in_order_once(server, council, tmp_path):
    async with running(tmp_path, council) as house:
        await until(lambda: house.notes.get("discord") == "")
        thread = await server.say("first")
        await until(lambda: server.texts(thread))
        council.hold.clear()
        await server.say("second", channel=thread)
        await until(lambda: len(council.asked) == 2)
        await server.stop()
        council.hold.set()
        await until(lambda: "a message waits for discord_chat" in house.trouble)
        assert "connection was lost" in house.trouble or "cannot be reached" in house.trouble
    assert server.texts(thread) == ["You said: first"]
    await server.start()
    async with running(tmp_path, council) as house:
        await until(lambda: len(server.texts(thread)) == 2)
        await settled(house)
        await until(lambda: house.trouble == "")
    assert server.texts(thread) == ["You said: first", "You said: second"]


async def test_a_token_that_is_not_taken_is_told_and_not_tried_again(server, council, tmp_path):
    server.login_faults = [Fault(401)] * 5
    async with running(tmp_path, council) as house:
        await until(lambda: "does not take the bot's token" in house.notes.get("discord", ""))
        await asyncio.sleep(0.1)
        assert len(server.login_faults) == 4


async def test_a_bot_that_may_not_read_messages_says_which_switch(server, council, tmp_path):
    server.refuse_close_code = 4014
    async with running(tmp_path, council) as house:
        await until(lambda: "Message Content Intent" in house.notes.get("discord", ""))


async def test_it_connects_when_discord_comes_back(council, tmp_path):
    server = DiscordServer()
    await server.start()
    await server.stop()
    with server.in_place():
        async with running(tmp_path, council) as house:
            await until(lambda: "discord cannot be reached" in house.notes.get("discord", ""))
            await server.start()
            await until(lambda: house.notes["discord"] == "")
            thread = await server.say("hello")
            await until(lambda: server.texts(thread))
        await server.stop()


async def test_without_a_thread_it_answers_in_the_channel(server, house):
    server.thread_faults = [Fault(403, body={"message": "Missing Permissions", "code": 50013})]
    message = await server.say("hello")
    await until(lambda: server.texts(CHANNEL))
    assert server.posts[0]["message_reference"]["message_id"] in (message, int(message))


async def test_a_thread_from_before_is_known_by_its_channel(server, council, house):
    server.threads["4000"] = server.threads.get("4000") or thread_of(CHANNEL)
    server.threads["4001"] = thread_of("201") | {"id": "4001"}
    await server.say("elsewhere", channel="4001")
    await server.say("old thread", channel="4000")
    await until(lambda: server.texts("4000"))
    assert [one.session_id for one in council.asked] == ["discord-4000"]


def thread_of(parent):
    about = {"archived": False, "auto_archive_duration": 60, "archive_timestamp": "2025-12-01T12:00:00+00:00"}
    return {
        "id": "4000",
        "type": 11,
        "guild_id": SERVER,
        "parent_id": parent,
        "owner_id": ALLOWED,
        "name": "old",
        "message_count": 1,
        "member_count": 1,
        "thread_metadata": about | {"locked": False},
    }


@pytest.mark.parametrize(
    ("error", "words"),
    [(DeadlineExceeded("/home/me/secret"), "too long"), (Unavailable("the model in /home/me"), "try again later")],
)
async def test_what_goes_wrong_is_told_without_its_particulars(server, council, house, error, words):
    council.reply = lambda request: error
    thread = await server.say("hello")
    await until(lambda: server.texts(thread))
    (said,) = server.texts(thread)
    assert words in said
    assert "/home" not in said


async def test_more_at_once_than_it_takes_is_told_so(server, council, house):
    council.hold.clear()
    threads = [await server.say(f"message {n}") for n in range(3)]
    await until(lambda: any(server.texts(thread) for thread in threads))
    assert sum("busy" in text for thread in threads for text in server.texts(thread)) == 1
    council.hold.set()
    await until(lambda: all(server.texts(thread) for thread in threads))
    assert len(council.asked) == 2


async def test_words_beside_turns_leave_the_places_to_answers(server, council, tmp_path):
    limits = msgspec.structs.replace(LIMITS, most_waiting=6, first_pause_s=30.0, longest_pause_s=30.0)
    async with running(tmp_path, council, limits) as house:
        await until(lambda: house.notes.get("discord") == "")
        council.hold.clear()
        server.faults = [Fault(drop="before")] * 100
        for n in range(10):
            house.bot.heard(IncomingMessage(message_id=str(7000 + n), address=CHANNEL, text=f"message {n}"))
        await until(lambda: len(house.bot._answering._tasks) == 2)  # the two turns; every word was put or left out
        assert await house.log.waiting("discord_chat") == 3
        council.hold.set()
        await until(lambda: not house.bot._answering._tasks)
        assert len(council.asked) == 2
        for one in council.asked:
            assert await house.log.receipts("local", one.idempotency_key)
        assert house.notes.get("discord_queue", "") == ""


async def test_a_person_whose_turn_a_stop_cuts_off_is_told_at_once_where_discord_is_there(server, council, tmp_path):
    async with running(tmp_path, council) as house:
        await until(lambda: house.notes.get("discord") == "")
        council.hold.clear()
        thread = await server.say("hello")
        await until(lambda: council.asked)
        await house.bot.stop(4.0)
        assert server.texts(thread) == ["I was stopped before I had an answer; please ask again."]
        assert await house.log.waiting("discord_chat") == 0


async def test_an_error_nobody_foresaw_is_shown_until_a_turn_ends_well(server, council, house):
    council.reply = lambda request: RuntimeError("a bug")
    thread = await server.say("hello")
    await until(lambda: server.texts(thread) and "a bug" in house.notes.get("discord_turn", ""))
    council.reply = lambda request: answered("Yes.", turn_id=request.idempotency_key)
    await server.say("again", channel=thread)
    await until(lambda: len(server.texts(thread)) == 2)
    assert house.notes["discord_turn"] == ""


async def test_an_answer_comes_after_an_outage_in_which_the_client_was_closed_under_it(server, council, tmp_path):
    async with running(tmp_path, council, patience_s=0.6) as house:
        await until(lambda: house.notes.get("discord") == "")
        limits = msgspec.structs.replace(LIMITS, timeout_s=20.0)
        house.deliverer._limits = limits
        server.faults = [Fault(502)] * 2  # the library waits a second, then three, inside the call
        thread = await server.say("hello")
        await until(lambda: server.posts)
        server.is_silent = True
        await server.drop()
        await until(lambda: "no connection within" in house.notes.get("discord", ""))
        server.is_silent, server.faults = False, []
        await until(lambda: server.texts(thread))
        await settled(house)
        assert server.texts(thread) == ["You said: hello"]


async def test_a_person_whose_turn_a_stop_cut_off_is_told_at_the_next_start(server, council, tmp_path):
    async with running(tmp_path, council) as house:
        await until(lambda: house.notes.get("discord") == "")
        council.hold.clear()
        thread = await server.say("hello")
        await until(lambda: council.asked)
        await server.stop()
    await server.start()
    assert server.texts(thread) == []
    async with running(tmp_path, council):
        await until(lambda: server.texts(thread))
    assert server.texts(thread) == ["I was stopped before I had an answer; please ask again."]


async def test_a_message_heard_twice_is_answered_once(server, council, house):
    thread = await server.say("hello")
    await until(lambda: server.texts(thread))
    taken = {"message": "A thread has already been created for this message", "code": 160004}
    server.thread_faults = [Fault(400, body=taken)]
    await server.repeat(thread)
    await until(lambda: len(council.asked) == 2)
    await settled(house)
    assert {one.idempotency_key for one in council.asked} == {f"discord-{thread}"}
    assert {one.session_id for one in council.asked} == {f"discord-{thread}"}
    assert server.texts(thread) == ["You said: hello"]
    assert server.texts(CHANNEL) == []


async def test_a_gateway_that_says_nothing_is_left(server, council, tmp_path):
    server.is_silent = True
    async with running(tmp_path, council, patience_s=0.5) as house:
        await until(lambda: "no connection within 0.5 s" in house.notes.get("discord", ""))
        server.is_silent = False
        await until(lambda: house.notes["discord"] == "")
        await asyncio.sleep(0.6)
        thread = await server.say("hello")
        await until(lambda: server.texts(thread))
    assert server.sockets >= 2


async def test_pictures_alone_are_answered_in_words(server, council, house):
    picture = {"id": "1", "filename": "a.png", "size": 1, "url": "http://x/a.png", "proxy_url": "http://x/a.png"}
    thread = await server.say("", attachments=[picture])
    await until(lambda: server.texts(thread))
    assert server.texts(thread) == ["I can read text only; please write what you want to know."]
    assert council.asked == []
