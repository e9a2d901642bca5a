"""The edges of a turn: blocks it may not write, time it does not have, what stands in the log when it is cut."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import DeadlineExceeded, GaiadError, TokenBudgetError
from gaiad.base.ports import RequestContext
from gaiad.ledger.turn_log import CUT_OFF
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.turn.cognition import NOT_TOLD
from gaiad.turn.stage_call import ENDED
from gaiad.turn.turn_store import decode_sent
from gaiad.wire.chat import ChatRequest
from tests.makers.council_house import ROLES, House

PLANS, ACTS, VERIFIES = (
    "think step by step",
    r"\A(?![\s\S]*(?:user's next message|Read this part))",
    "the plan, step by step",
)
PLAN = 'PLAN: {"confidence": 0.9, "steps": ["Say it"]}'
GOOD = 'VERIFY: {"outcome": "success", "summary": "so it is"}'
BAD = GOOD.replace("success", "fail")
PLAIN = "RESPONSE: It is Zephyrine."
SHELL_RULE = "Never execute shell commands without reflection and approval."


def says(answer, verdict=GOOD):
    replies = [
        ScriptedReply(text=PLAN, match="think step by step|errors, gaps"),
        ScriptedReply(text=verdict, match=VERIFIES),
        *answer,
        ScriptedReply(text=PLAIN),
    ]
    return dict.fromkeys(ROLES, replies)


@pytest.fixture
async def open_house(tmp_path, open_archive, config):
    @asynccontextmanager
    async def opened(*answer, verdict=GOOD, **settings):
        archive = await open_archive()
        clock, said = SystemClock("UTC"), says(list(answer), verdict)
        house = await House(tmp_path / "house", archive, clock, config, said, **settings).open()
        try:
            yield house
        finally:
            await house.close()

    (tmp_path / "house").mkdir()
    return opened


@pytest.mark.parametrize(
    "opening",
    ["EXECUTE: ", "EXECUTE : ", "**EXECUTE:** ", "##### EXECUTE: ", "__EXECUTE__: ", "\u200bEXECUTE: "],
)
async def test_a_block_that_the_answer_may_not_have_stops_it_however_it_is_spelled(open_house, opening):
    bad = f'RESPONSE: I will see.\n{opening}{{"argv": ["touch", "x"], "why": "y"}}\n'
    async with open_house(ScriptedReply(text=bad, match=ACTS)) as house:
        answer, turn = await house.say("hello", depth="fast")
        assert [row.verdict for row in turn.stages] == ["interrupted", "ok"]
        assert (answer.answer, turn.votes) == ("It is Zephyrine.", [])


async def test_a_message_that_fits_no_packet_is_no_roles_fault(open_house):
    async with open_house() as house:
        with pytest.raises(TokenBudgetError, match="too many"):
            await house.say("word " * 6000)
        (turn,) = await house.turn_log.newest("local", 5)
        assert (turn.status, turn.stages) == ("FAILED", [])
        assert house.reflected == []


async def test_the_deadline_holds_while_the_archive_is_asked(open_house):
    async with open_house(deadline_s=1.0, full_deadline_s=1.0) as house:

        async def never(*_arguments, **_more):
            call = _arguments[3]
            while True:
                await asyncio.sleep(0.02)
                call.check(house.clock.monotonic())

        house.assembler.gather = never
        with pytest.raises(DeadlineExceeded):
            await house.say("hello")
        (turn,) = await house.turn_log.newest("local", 5)
        assert turn.status == "FAILED"
        assert "deadline" in turn.end_why
        assert house.room.running == {}


async def test_who_waits_for_an_earlier_turn_is_told_when_it_takes_too_long(open_house):
    slow = ScriptedReply(text="RESPONSE: " + "so it goes on and on ", match=ACTS, delay_ms=400.0, chunk_characters=4)
    async with open_house(slow, full_deadline_s=0.5, deadline_s=60.0) as house:
        first = asyncio.ensure_future(house.say("hello", depth="fast"))
        await asyncio.sleep(0)  # it has the session's line
        with pytest.raises(DeadlineExceeded, match="busy with earlier turns"):
            await house.say("and now?", depth="fast")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_a_turn_that_is_left_has_a_row_for_the_stage_it_was_at(open_house):
    slow = ScriptedReply(text=PLAIN, match=ACTS, delay_ms=60.0, chunk_characters=3)
    async with open_house(slow) as house:
        events = house.taker.take(ChatRequest(message="hello", session_id="s", depth="full"), RequestContext())
        async for name, _ in events:
            if name == "delta":
                break
        await events.aclose()
        (turn,) = await house.turn_log.newest("local", 5)
        assert [(row.stage, row.verdict) for row in turn.stages] == [
            ("plan", "ok"), ("refine", "ok"), ("act", "cancelled")
        ]  # fmt: skip
        assert turn.status == "CANCELLED"


async def test_the_log_knows_the_stages_that_were_done_while_the_turn_goes_on(open_house):
    slow = ScriptedReply(text=PLAIN, match=ACTS, delay_ms=100.0, chunk_characters=3)
    async with open_house(slow) as house:
        taking = asyncio.ensure_future(house.say("hello"))
        async with asyncio.timeout(30):
            while "refine" not in [row.stage for row in (await _newest(house)).stages]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        turn = await _newest(house)
        assert turn.status == "RUNNING"
        await taking


async def test_a_turn_that_a_killed_daemon_cut_off_is_taken_again_under_its_key(open_house):
    async with open_house(ScriptedReply(error="worker_died", match=ACTS, times=1)) as house:
        with pytest.raises(GaiadError):
            await house.say("hello", idempotency_key="k", depth="fast")
        (turn,) = await house.turn_log.newest("local", 1)
        await house.turn_log.put("local", type(turn)(**{**_fields(turn), "status": CUT_OFF}))
        answer, again = await house.say("hello", idempotency_key="k", depth="fast")
        assert (again.turn_id, again.status, answer.notes) == (turn.turn_id, "SUCCESS", [])


async def _newest(house):
    found = await house.turn_log.newest("local", 1)
    return found[0] if found else SimpleNamespace(stages=[])


def _fields(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


async def test_the_newest_turn_comes_first_whatever_its_id(open_house):
    async with open_house() as house:
        for number in range(4):
            await house.say(f"hello {number}", depth="fast", idempotency_key=f"key {number}" if number % 2 else "")
        assert [turn.message for turn in await house.turn_log.newest("local", 4)] == [
            f"hello {number}" for number in (3, 2, 1, 0)
        ]


async def test_thoughts_of_an_answer_that_failed_its_verification_are_not_kept(open_house):
    seeding = ScriptedReply(text=f"{PLAIN}\nTHOUGHT_SEED: Ask more.", match=ACTS)
    async with open_house(seeding, verdict=BAD) as house:
        answer, _ = await house.say("hello")
        assert (answer.status, house.seeds) == ("REVERTED", [])


async def test_a_failed_answer_is_marked_as_such_in_the_next_packet(open_house):
    async with open_house(verdict=BAD) as house:
        await house.say("hello")
        _, turn = await house.say("and now?", depth="fast")
        packet = decode_sent(await house.cognition.find("local", turn.stages[0].packet_id)).packet
        assert "failed its verification" in packet.history[-1].text


async def test_an_interrupt_is_remembered_as_an_event_and_no_page(open_house):
    command = ScriptedReply(text="RESPONSE: Gladly.\n$ rm -r x", match=ACTS)
    async with open_house(command) as house:
        await house.say("hello", depth="fast")
        (turn,) = await house.archive.session_turns("s", RequestContext())
        assert "command" in turn.metadata["interrupts"][0]
        assert [block.marker for block in turn.blocks] == ["RESPONSE"]


async def test_a_loop_ends_the_answer_with_a_note(open_house):
    async with open_house(ScriptedReply(text="RESPONSE: Well, " + "again and again and " * 60, match=ACTS)) as house:
        answer, turn = await house.say("hello", depth="fast")
        assert [row.verdict for row in turn.stages] == ["ok"]
        assert answer.answer == "Well, again and"
        assert "the reply began to repeat itself and was ended there" in answer.notes
        sent = decode_sent(await house.cognition.find("local", turn.stages[0].packet_id))
        assert sent.failure.startswith(f"{ENDED}: ")
        assert sent.failure in turn.stages[0].notes


async def test_a_persons_own_affairs_are_never_made_up(open_house):
    invented = ScriptedReply(text="RESPONSE: Your appointment is on Monday the 3rd.", match=ACTS)
    async with open_house(invented) as house:
        for _ in range(2):
            answer, turn = await house.say("When is my dentist appointment?", depth="fast")
            assert answer.answer == NOT_TOLD
        sent = decode_sent(await house.cognition.find("local", turn.stages[-1].packet_id))
        assert sent.packet.history == []


async def test_what_was_told_in_the_session_is_quoted_where_the_model_says_otherwise(open_house):
    async with open_house(ScriptedReply(text="RESPONSE: Your cat is black.", match=ACTS)) as house:
        await house.say("My cat is called Pixel and she is grey.", depth="fast")
        answer, _ = await house.say("What colour is my cat?", depth="fast")
        assert answer.answer == "You said: “My cat is called Pixel and she is grey.”"
        assert answer.sources == []


@pytest.mark.parametrize(
    "text",
    [
        "RESPONSE: It is Zephyrine.\nPLAN: 1. Ask",
        "PLAN: 1. Ask\n\nRESPONSE: It is Zephyrine.",
        "PLAN:\n1. Ask\n2. Wait\nRESPONSE: It is Zephyrine.\nTHOUGHT_SEED: Ask again later.",
    ],
)
async def test_a_plan_beside_the_answer_goes_to_the_council_and_never_costs_the_answer(open_house, text):
    async with open_house(ScriptedReply(text=text, match=ACTS)) as house:
        answer, turn = await house.say("hello", depth="fast")
        assert [row.verdict for row in turn.stages] == ["ok"]
        assert answer.answer.strip() == "It is Zephyrine."
        (plan,) = [block["text"] for block in turn.blocks if block["marker"] == "PLAN"]
        assert plan.startswith("1. Ask")


async def test_a_parroted_answer_is_asked_for_again_with_another_seed(open_house):
    parroted = ScriptedReply(
        text=SHELL_RULE,
        match=ACTS,
        times=1,
    )
    async with open_house(parroted) as house:
        answer, turn = await house.say("hello", depth="fast", seed=7)
        assert [row.verdict for row in turn.stages] == ["empty", "ok"]
        assert [row.seed for row in turn.stages] == [7, 8]
        assert answer.answer == "It is Zephyrine."


async def test_what_is_parroted_twice_is_never_shown_or_remembered(open_house):
    parroted = ScriptedReply(text="Tone: plain and friendly. Style: complete sentences, the answer first.", match=ACTS)
    async with open_house(parroted, parroted) as house:
        answer, turn = await house.say("hello", depth="fast")
        assert [row.verdict for row in turn.stages] == ["empty", "empty"]
        assert not answer.answered
        assert "no usable answer" in answer.answer
        (remembered,) = await house.archive.session_turns("s", RequestContext())
        assert "the answer first" not in remembered.answer


@pytest.mark.parametrize("recited", ["You are GAIA, an AI: truthfulness, empathy, integrity.", SHELL_RULE])
async def test_one_that_only_recites_who_it_is_gives_its_name(open_house, recited):
    async with open_house(ScriptedReply(text=recited, match=ACTS)) as house:
        answer, turn = await house.say("Tell me who you are", depth="fast")
        assert [row.verdict for row in turn.stages] == ["empty", "empty"]
        assert answer.answer.startswith("I am GAIA, ")
        assert "shell" not in answer.answer


async def test_an_answer_ends_before_the_sentence_that_recites_its_prompt(open_house):
    text = f"RESPONSE: An egg boils in eight minutes. As I said, {SHELL_RULE} Then peel it."
    async with open_house(ScriptedReply(text=text, match=ACTS)) as house:
        answer, turn = await house.say("How long does an egg boil?", depth="fast")
        assert [row.verdict for row in turn.stages] == ["ok"]
        assert answer.answer == "An egg boils in eight minutes."
        assert any("its instructions" in note for note in answer.notes)


async def test_an_invention_about_what_the_records_name_gives_way_to_what_they_say(open_house, make_packet, tmp_path):
    (tmp_path / "sofa.xml").write_bytes(make_packet(content="The new sofa will be delivered on March 3."))
    async with open_house(ScriptedReply(text="RESPONSE: Das Sofa kommt am 15. Mai.", match=ACTS)) as house:
        await house.archive.ingest_files([tmp_path / "sofa.xml"], RequestContext())
        answer, _ = await house.say("Wann wird das neue Sofa geliefert?", depth="fast")
        quote = "The closest passage: “The new sofa will be delivered on March 3.” [Packet: TP-1]"
        assert answer.answer == f"{NOT_TOLD} {quote}"
        assert answer.sources == ["TP-1"]


async def test_an_answer_that_no_record_has_is_marked_as_the_models_own(open_house, make_packet, tmp_path):
    (tmp_path / "sofa.xml").write_bytes(make_packet(content="The new sofa will be delivered on March 3."))
    async with open_house(ScriptedReply(text="RESPONSE: Isandro's car is red.", match=ACTS)) as house:
        await house.archive.ingest_files([tmp_path / "sofa.xml"], RequestContext())
        answer, _ = await house.say("What colour is Isandro's car?", depth="fast")
        assert [note for note in answer.notes if "the model's own" in note]
        answer, _ = await house.say("How many days has a week?", depth="fast")
        assert not [note for note in answer.notes if "the model's own" in note]


async def test_who_asks_for_a_council_that_cannot_meet_learns_why(open_house):
    async with open_house(duties=frozenset()) as house:
        answer, turn = await house.say("hello", depth="full")
        assert turn.depth == "fast"
        assert answer.notes == [f"the council did not take this: {turn.depth_why}"]
        assert (await house.say("hello", depth="auto"))[0].notes == []
