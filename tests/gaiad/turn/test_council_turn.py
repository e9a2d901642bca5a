"""Turns through the council with scripted roles: every failure mode of GCP 6 and 8.4 ends as the seed says."""

import hashlib
from contextlib import asynccontextmanager

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.errors import DeadlineExceeded, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.wire.chat import ChatRequest
from router.routed import RoutedTurn
from router.routing import routing_of
from tests.makers.council_house import House

PLANS, REFINES, ACTS = (
    "think step by step",
    "errors, gaps and risks",
    r"\A(?![\s\S]*(?:user's next message|Read this part))",
)
REPAIRS, VERIFIES = "was interrupted for", "the plan, step by step"
REVIEWS, VOTES = "Review the proposed command", "Vote yes, no or abstain"
PLAN = 'PLAN: {"steps": ["Look up the keeper", "Say who it is"]}'
REFINED = 'PLAN: {"confidence": 0.8, "steps": ["Look up the keeper", "Name the keeper"]}'
ANSWER = "RESPONSE: The keeper is Zephyrine."
GOOD = 'VERIFY: {"outcome": "success", "summary": "it names the keeper"}'
BAD = 'VERIFY: {"outcome": "fail", "summary": "it names nobody"}'
MESSAGE = "Who keeps the lantern?"


def reply(text, match="", **more):
    return ScriptedReply(text=text, match=match, **more)


def roles(plan=PLAN, refined=REFINED, answer=ANSWER, verdict=GOOD):
    """Who says what; each a text, or a list of replies that come before it."""
    return {
        "lite": [*_first(plan, PLANS), reply(PLAN, PLANS), reply(GOOD, VERIFIES), reply(ANSWER)],
        "prime": [*_first(refined, REFINES), *_first(answer, ACTS), reply(REFINED, REFINES), reply(ANSWER)],
        "codemind": [*_first(verdict, VERIFIES), reply(GOOD, VERIFIES), reply(ANSWER)],
    }


def _first(said, match):
    return [reply(said, match)] if isinstance(said, str) else said


@pytest.fixture
async def open_house(tmp_path, open_archive, config):
    @asynccontextmanager
    async def opened(says=None, **settings):
        archive = await open_archive()
        house = await House(tmp_path / "house", archive, SystemClock("UTC"), config, says or roles(), **settings).open()
        try:
            yield house
        finally:
            await house.close()

    (tmp_path / "house").mkdir()
    return opened


def stages(turn):
    return [(row.stage, row.role, row.verdict) for row in turn.stages]


async def posted(house, *types):
    from council.envelope import read_envelope

    found = [read_envelope(message.body) for message in await house.log.after("local", "", 200)]
    return [one for one in found if one.type in types]


# ------------------------------------------------------------------------------------------------------ all goes well


async def test_a_full_turn_plans_refines_acts_and_verifies(open_house):
    async with open_house() as house:
        answer, turn = await house.say(MESSAGE)
        assert stages(turn) == [
            ("plan", "lite", "ok"), ("refine", "prime", "ok"), ("act", "prime", "ok"), ("verify", "codemind", "success")
        ]  # fmt: skip
        assert (answer.answer, answer.status, answer.depth) == ("The keeper is Zephyrine.", "SUCCESS", "full")
        assert [block.marker for block in answer.blocks] == ["PLAN", "RESPONSE", "VERIFY"]
        assert answer.blocks[0].text == "1. Look up the keeper\n2. Name the keeper\nconfidence=0.8"
        assert (turn.status, turn.depth, turn.depth_why) == ("SUCCESS", "full", "full was asked for")
        assert house.reflected == [("refine", "ok", 0.8), ("verify", "success", None)]
        remembered = (await house.archive.session_turns("s", RequestContext()))[0]
        assert [block.marker for block in remembered.blocks] == ["PLAN", "RESPONSE", "VERIFY"]
        assert remembered.answer == "The keeper is Zephyrine."


async def test_each_stage_reads_what_the_ones_before_it_wrote_and_shares_their_beginning(open_house):
    async with open_house() as house:
        _, turn = await house.say(MESSAGE)
        sent = {row.stage: await _prompt(house, row.packet_id) for row in turn.stages}
        assert "Name the keeper" not in sent["plan"]
        assert "Look up the keeper" in sent["refine"]
        assert "Name the keeper" in sent["act"]
        assert "Zephyrine" not in sent["act"]
        assert "Name the keeper" in sent["verify"]
        assert "The keeper is Zephyrine." in sent["verify"]
        parents = [await _packet(house, row.packet_id) for row in turn.stages]
        shared, found, _ = sent["plan"].partition(parents[0].role_text)
        assert found, "the role's text comes after what all stages share"
        assert parents[0].identity in shared
        assert all(prompt.startswith(shared) for prompt in sent.values())
        assert [one.parent_id for one in parents[1:]] == [one.full_id for one in parents[:-1]]


async def test_memos_of_what_was_said_before_seed_the_plan(open_house):
    async with open_house() as house:
        await house.say("We decided on 3 May 2025 that Zephyrine keeps the lantern.", session_id="old", depth="fast")
        _, turn = await house.say("Who keeps the lantern since when?")
        first = (await _packet(house, turn.stages[0].packet_id)).work[0]
        assert first.marker == "MEMO"
        assert "2025-05-03" in first.text
        assert first.text in await _prompt(house, turn.stages[0].packet_id)


async def _packet(house, full_id):
    from gaiad.turn.turn_store import decode_sent

    return decode_sent(await house.cognition.find("local", full_id)).packet


async def _prompt(house, full_id):
    from prompts.messages import messages_of

    return "\n".join(
        segment.text for message in messages_of(await _packet(house, full_id)) for segment in message.content
    )


async def test_the_councils_log_has_plan_confidence_and_verdict_and_not_the_answer(open_house):
    async with open_house() as house:
        await house.say(MESSAGE)
        said = await posted(house, "INFO", "ESCALATION", "PROPOSAL")
        by_role = {(one.sender, one.role): one for one in said if one.role != "steward"}
        assert by_role["lite", "planner"].content.startswith("PLAN:\n1. Look up")
        assert by_role["prime", "refiner"].confidence == 0.8
        assert by_role["codemind", "verifier"].content.startswith("VERIFY: success: ")
        assert all("Zephyrine" not in one.content for one in said)


async def test_a_success_by_a_model_that_has_not_shown_that_it_can_tell_leaves_the_turn_unverified(open_house):
    async with open_house(duties=None) as house:
        answer, turn = await house.say(MESSAGE)
        assert stages(turn)[-1] == ("verify", "codemind", "unproven")
        assert (answer.answer, answer.status, turn.status) == ("The keeper is Zephyrine.", "UNVERIFIED", "UNVERIFIED")
        assert answer.blocks[-1].text.startswith("unverified: codemind says success")
        assert "has not shown that it can tell right from wrong" in answer.notes[-1]
        assert house.reflected[-1] == ("verify", "unproven", None)


async def test_a_fault_counts_whoever_finds_it(open_house):
    async with open_house(roles(verdict=BAD), duties=None) as house:
        answer, _ = await house.say(MESSAGE)
        assert answer.status == "REVERTED"


async def test_a_short_question_is_fast_and_says_why(open_house):
    async with open_house() as house:
        answer, turn = await house.say(MESSAGE, depth="")
        assert stages(turn) == [("act", "prime", "ok")]
        assert (answer.depth, answer.depth_why) == ("fast", "a short question without risk")
        assert turn.votes == []


# ------------------------------------------------------------------------------------------------- plans that miss


async def test_an_answer_in_plain_text_is_shown_from_its_first_words_on(open_house):
    plain = "The keeper is Zephyrine, who came from the coast in spring and keeps it alone. " * 3
    async with open_house(roles(answer=plain)) as house:
        first = next(data["text"] for name, data in await house.events(MESSAGE, depth="fast") if name == "delta")
        assert plain.startswith(first)
        assert len(first) < 40


async def test_a_plan_that_misses_once_is_asked_for_again(open_house):
    says = roles(plan=[reply("I would rather not.", PLANS, times=1)])
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert stages(turn)[:3] == [("plan", "lite", "missing"), ("plan", "lite", "ok"), ("refine", "prime", "ok")]
        assert (answer.status, turn.escalations) == ("SUCCESS", [])


async def test_a_plan_that_misses_twice_goes_up_to_prime(open_house):
    says = roles(plan=[reply("I would rather not.", PLANS)])
    says["prime"].insert(0, reply(PLAN, PLANS))
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert stages(turn)[:3] == [("plan", "lite", "missing"), ("plan", "lite", "missing"), ("plan", "prime", "ok")]
        assert [(one.raised_by, one.to, one.triggers) for one in turn.escalations] == [
            ("lite", "prime", ["stage_failed"])
        ]
        assert answer.status == "SUCCESS"
        assert len(await posted(house, "ESCALATION")) == 1


async def test_a_plan_that_prime_cannot_write_either_is_the_persons(open_house):
    says = roles(plan=[reply("I would rather not.", PLANS)])
    says["prime"].insert(0, reply("No.", PLANS))
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert answer.status == turn.status == "ASKS_PERSON"
        assert "The council asks you" in answer.answer
        assert "still no plan" in answer.answer
        assert [one.to for one in turn.escalations] == ["prime", "person"]
        assert [one.to for one in house.room.escalations("local")] == ["person"]
        await house.say("Then just answer.", depth="fast")
        assert house.room.escalations("local") == []


async def test_low_confidence_of_prime_asks_the_person(open_house):
    says = roles(refined='PLAN: {"confidence": 0.1, "steps": ["Guess the keeper"]}')
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert stages(turn)[-1] == ("refine", "prime", "low_confidence")
        assert (answer.status, turn.stages[-1].confidence) == ("ASKS_PERSON", 0.1)
        assert turn.escalations[-1].triggers == ["low_confidence"]
        assert "confidence 0.1 is below 0.3" in answer.answer


# --------------------------------------------------------------------------------------------------- the observer

LEAK = "RESPONSE: The key is AKIAIOSFODNN7EXAMPLE and there is more of it."


@pytest.mark.parametrize("times", [1, 2])
async def test_an_answer_that_is_interrupted_is_written_anew(open_house, times):
    says = roles(answer=[reply(LEAK, ACTS, times=1), reply(LEAK, REPAIRS, times=times - 1)][:times])
    async with open_house(says) as house:
        events = await house.events(MESSAGE)
        answer = events[-1][1]
        turn = await house.turn_log.find("local", answer.turn_id)
        assert [row.verdict for row in turn.stages if row.stage == "act"] == ["interrupted"] * times + ["ok"]
        assert answer.answer == "The keeper is Zephyrine."
        shown = "".join(event["text"] for name, event in events if name == "delta")
        assert "AKIA" not in shown
        assert [name for name, _ in events if name == "retract"] == ["retract"] * times
        repaired = await _packet(house, [row for row in turn.stages if row.stage == "act"][-1].packet_id)
        assert repaired.task_instruction_key == "interruption_handling"
        assert [item.marker for item in repaired.work][-1] == "INTERRUPT"
        assert "AKIA" not in repaired.work[-1].text
        assert "AKIA" not in (await house.archive.session_turns("s", RequestContext()))[0].answer


async def test_three_interrupts_in_a_row_are_high_risk_and_end_with_the_person(open_house):
    says = roles(answer=[reply(LEAK, ACTS), reply(LEAK, REPAIRS)])
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert [row.verdict for row in turn.stages if row.stage == "act"] == ["interrupted"] * 3
        assert answer.status == "ASKS_PERSON"
        assert {"high_risk", "interrupts"} <= set(turn.escalations[-1].triggers)
        assert "AKIA" not in answer.answer
        envelopes = await posted(house, "ESCALATION")
        assert envelopes[-1].risk_level == "high"


# ------------------------------------------------------------------------------------------------- verification


async def test_a_verification_that_fails_is_told_and_nothing_is_claimed_to_be_undone(open_house):
    async with open_house(roles(verdict=BAD)) as house:
        answer, turn = await house.say(MESSAGE)
        assert (answer.status, stages(turn)[-1][2]) == ("REVERTED", "fail")
        assert any(
            "Verification failed: it names nobody" in note and "nothing to revert" in note for note in answer.notes
        )
        assert answer.answer == "The keeper is Zephyrine."
        assert house.reflected[-1] == ("verify", "fail", None)
        assert [(one.to, one.why) for one in turn.escalations] == [
            ("person", "the result did not stand up to verification")
        ]
        assert len(house.room.escalations("local")) == 1


async def test_an_answer_that_nobody_can_verify_says_so(open_house):
    lost = reply("", VERIFIES, error="worker_died")
    says = {role: [lost, *said] for role, said in roles().items()}
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert [row.verdict for row in turn.stages if row.stage == "verify"] == ["lost"] * 3
        assert answer.status in ("UNVERIFIED", "ASKS_PERSON")
        assert answer.answer == "The keeper is Zephyrine."
        assert any("verif" in note.lower() for note in answer.notes)


# ------------------------------------------------------------------------------------- models that ignore the format


async def test_a_model_that_ignores_the_format_is_read_as_it_writes(open_house):
    says = {
        "lite": [reply("Sure!\n1. Look for the keeper\n2. Tell the story", PLANS)],
        "prime": [
            reply("**Plan:**\n- Look for the keeper\nConfidence: 70%", REFINES),
            reply("It is Zephyrine, of course."),
        ],
        "codemind": [reply("Success: all steps are done.")],
    }
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert [row.verdict for row in turn.stages] == ["ok", "ok", "ok", "success"]
        assert answer.answer == "It is Zephyrine, of course."
        assert turn.stages[0].notes
        assert turn.stages[1].confidence == 0.7


# ------------------------------------------------------------------------------------------------- roles that fail


async def test_a_role_that_dies_is_stood_in_for_and_the_turn_goes_on(open_house):
    says = roles(plan=[reply("", PLANS, error="worker_died")])
    says["prime"].insert(0, reply(PLAN, PLANS))
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        assert stages(turn)[:2] == [("plan", "lite", "lost"), ("plan", "prime", "ok")]
        assert (answer.status, turn.stages[1].stands_in_for) == ("SUCCESS", "lite")
        assert "worker_died" in turn.stages[0].notes[-1]


async def test_an_answer_that_breaks_off_is_retracted_and_written_by_another(open_house):
    says = roles(answer=[reply("RESPONSE: It began well, then", ACTS, error="worker_died")])
    async with open_house(says) as house:
        events = await house.events(MESSAGE, depth="fast")
        assert "retract" in [name for name, _ in events]
        assert events[-1][1].answer == "The keeper is Zephyrine."


async def test_when_no_role_can_answer_the_refusal_names_what_happened(open_house):
    says = {role: [reply("", error="worker_died")] for role in ("prime", "lite", "codemind")}
    async with open_house(says) as house:
        with pytest.raises(Unavailable, match=r"no role .*worker_died"):
            await house.say(MESSAGE, depth="fast")
        assert await house.archive.sessions(RequestContext()) == []
        (turn,) = await house.turn_log.newest("local", 5)
        assert (turn.status, len(turn.stages)) == ("REFUSED", 3)


async def test_a_turn_ends_within_its_deadline_though_every_role_is_slow(open_house):
    says = {role: [reply("RESPONSE: too late", delay_ms=60_000.0)] for role in ("prime", "lite", "codemind")}
    async with open_house(says, deadline_s=1.5) as house:
        started = house.clock.monotonic()
        with pytest.raises(DeadlineExceeded):
            await house.say(MESSAGE, depth="fast")
        assert house.clock.monotonic() - started < 30.0, "a role would have answered after a minute"
        (turn,) = await house.turn_log.newest("local", 5)
        assert turn.status == "REFUSED"


async def test_an_answer_that_is_still_written_at_the_deadline_is_cut_and_says_so(open_house):
    words = " ".join(f"word{number}" for number in range(2000))
    slow = reply(f"RESPONSE: {words}", ACTS, delay_ms=40.0, chunk_characters=12)
    async with open_house(roles(answer=[slow]), deadline_s=3.0) as house:
        answer, _ = await house.say(MESSAGE, depth="fast")
        assert answer.answer.startswith("word0 word1 word2")
        assert "the text was cut at its deadline" in answer.notes


async def test_a_plan_that_is_written_too_slowly_is_left_out_and_the_answer_has_its_time(open_house):
    slow = reply("a plan " * 2000, REFINES, delay_ms=40.0, chunk_characters=12)
    async with open_house(roles(refined=[slow]), full_deadline_s=6.0) as house:
        answer, turn = await house.say(MESSAGE, depth="full")
        assert answer.answer == "The keeper is Zephyrine."
        assert "the plan was left out or cut short, so that the answer has its time" in answer.notes
        assert [(row.stage, row.role) for row in turn.stages][1:3] == [("refine", "prime"), ("act", "prime")]


# ------------------------------------------------------------------------------------------------------- commands

WISH = "Please delete the old log files in the folder."
COMMAND = 'EXECUTE: {"argv": ["rm", "old.log"], "why": "it is old"}\nRESPONSE: I would remove old.log.'


def commanding(review="accept", votes=("yes", "yes", "yes"), wrote=COMMAND):
    says = roles(answer=[reply(wrote, ACTS)])
    says["codemind"].insert(0, reply(f'{{"verdict": "{review}", "reason": "as asked"}}', REVIEWS))
    for role, vote in zip(("prime", "lite", "codemind"), votes, strict=True):
        says[role].insert(0, reply(f'{{"vote": "{vote}", "confidence": 0.9, "reason": "I think so"}}', VOTES))
    return says


async def test_a_command_is_reviewed_and_voted_on_and_waits_for_the_person(open_house):
    async with open_house(commanding()) as house:
        answer, turn = await house.say(WISH, persona="engineer", depth="auto")
        assert answer.depth == "full"
        (vote,) = turn.votes
        assert (vote.matter, vote.passed, [ballot.vote for ballot in vote.ballots]) == ("execute", True, ["yes"] * 3)
        assert "`rm old.log` may run when you approve it" in answer.notes[0]
        assert "It waits for you until" in answer.notes[0]
        assert (answer.status, turn.status) == ("AWAITING_APPROVAL", "AWAITING_APPROVAL")
        assert [row.stage for row in turn.stages][-1] == "act"
        assert house.shell.ran == []
        assert answer.answer == "I would remove old.log."
        assert [one.type for one in await posted(house, "PROPOSAL", "VOTE")] == ["PROPOSAL", "VOTE", "VOTE", "VOTE"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ('{"argv": ["rm", "%s"], "why": "it is old"}' % ("x" * 201), "length <= 200"),
        ("rm " + "x" * 201, "arguments of 200 characters"),
        ("rm *.log", "needs a shell"),
    ],
)
async def test_a_command_that_is_left_out_is_said_beside_the_answer(open_house, command, why):
    async with open_house(commanding(wrote=f"EXECUTE: {command}\nRESPONSE: I remove old.log.")) as house:
        answer, turn = await house.say(WISH, persona="engineer", depth="auto")
        assert answer.answer == "I remove old.log."
        (note,) = [note for note in answer.notes if note.startswith("a command was not proposed: ")]
        assert why in note
        assert turn.votes == []
        assert house.shell.ran == []


async def test_an_answer_that_is_a_command_alone_does_not_name_it_to_the_channel(open_house):
    async with open_house(commanding(wrote=COMMAND.partition("\n")[0])) as house:
        answer, turn = await house.say(WISH, persona="engineer", depth="auto")
        assert answer.status == "AWAITING_APPROVAL"
        assert answer.answer.startswith("The council agreed to a command, and it waits for its owner")
        (block,) = [block for block in answer.blocks if block.marker == "RESPONSE"]
        assert block.text == answer.answer
        (remembered,) = await house.archive.session_turns("s", RequestContext())
        shown = RoutedTurn(routing_of(load_config((), {})), "discord_chat").answer(answer)
        for text in (remembered.messages[-1].content, *(block.text for block in shown.blocks)):
            assert "old.log" not in text
            assert "gaiad approve " not in text
        assert "`rm old.log`" in answer.notes[0], "its owner reads it there"
        assert "`rm old.log` is agreed to" in turn.end_why


@pytest.mark.parametrize(
    ("says", "word"),
    [(commanding(review="reject"), "as asked"), (commanding(votes=("yes", "no", "no")), "failed by majority")],
    ids=["the reviewer's veto", "outvoted"],
)
async def test_a_command_that_is_not_agreed_to_is_refused_with_the_reason(open_house, says, word):
    async with open_house(says) as house:
        answer, turn = await house.say(WISH, persona="engineer")
        assert not turn.votes[0].passed
        assert "refused" in answer.notes[0] or "veto" in answer.notes[0]
        assert word in answer.notes[0]
        assert answer.answer == "I would remove old.log."


async def test_without_the_personas_grant_a_command_stops_the_answer(open_house):
    async with open_house(commanding()) as house:
        answer, turn = await house.say(WISH, persona="plain")
        assert turn.votes == []
        assert [row.verdict for row in turn.stages if row.stage == "act"] == ["interrupted", "ok"]
        assert answer.answer == "The keeper is Zephyrine."


# ---------------------------------------------------------------------------------------------- fewer than a council


async def test_with_one_role_left_a_full_turn_is_marked_as_reduced(open_house):
    says = roles()
    says["prime"] = [reply(PLAN, PLANS), reply(GOOD, VERIFIES), *says["prime"]]
    async with open_house(says) as house:
        for role in ("lite", "codemind"):
            house.models[role].kind = "extractive"
        answer, turn = await house.say(MESSAGE)
        assert [row.role for row in turn.stages] == ["prime"] * 4
        assert answer.reduced_quorum
        assert turn.reduced_quorum


async def test_thoughts_for_later_are_kept_and_not_part_of_the_answer(open_house):
    says = roles(answer="RESPONSE: It is Zephyrine.\nTHOUGHT_SEED: Ask who came before her.")
    async with open_house(says) as house:
        answer, _ = await house.say(MESSAGE, depth="fast")
        assert answer.answer == "It is Zephyrine."
        assert house.seeds == ["Ask who came before her."]
        assert [block.marker for block in answer.blocks] == ["RESPONSE", "THOUGHT_SEED"]


async def test_the_observing_model_reads_along_and_stops_an_answer(open_house):
    words = " ".join(f"word{number}" for number in range(600))
    says = roles(answer=[reply(f"RESPONSE: {words}", ACTS, delay_ms=20.0, chunk_characters=40)])
    says["lite"].insert(0, reply('{"interrupt": true, "reason": "it only counts"}', "Read this part of a response"))
    async with open_house(says) as house:
        answer, turn = await house.say(MESSAGE)
        looks = [row for row in turn.stages if row.stage == "observe"]
        assert looks[0].verdict == "interrupt"
        kept = [await house.cognition.find("local", row.packet_id) for row in turn.stages]
        assert [record.model == "" for record in kept] == [row.stage == "observe" for row in turn.stages]
        assert [row.verdict for row in turn.stages if row.stage == "act"] == ["interrupted", "ok"]
        assert answer.answer == "The keeper is Zephyrine."


@pytest.mark.parametrize("depth", ["full", "fast"])
async def test_what_is_rendered_is_what_the_turn_then_sends(open_house, depth):
    async with open_house(roles()) as house:
        await house.say("Who keeps the light in the harbour?", depth="fast")
        request = ChatRequest(message=MESSAGE, session_id="s", depth=depth)
        rendered = await house.taker.render(request, RequestContext())
        _, turn = await house.say(MESSAGE, depth=depth)
        first = turn.stages[0]
        assert (rendered.depth, rendered.stage, rendered.role) == (turn.depth, first.stage, first.role)
        assert (depth, rendered.stage) in (("full", "plan"), ("fast", "act"))
        assert hashlib.sha256(rendered.prompt.encode()).hexdigest() == first.prompt_sha256
        assert rendered.total_tokens == first.prompt_tokens


async def test_a_rendering_leaves_no_trace(open_house):
    async with open_house(roles()) as house:
        await house.taker.render(ChatRequest(message=MESSAGE, session_id="s", depth="full"), RequestContext())
        assert await house.turn_log.newest("local", 5) == []
        assert await house.cognition.newest("local", 5) == []
        assert [len(model.seen) for model in house.models.values()] == [0, 0, 0]
