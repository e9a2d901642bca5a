"""The fault table: a role's worker is killed, stopped or slow at a stage, or while it votes, and the turn ends well.

The worker that fails is a real process; what the others say stands in scripts, so that every end is known.
"""

import asyncio
import itertools
import os
import re
import signal
from contextlib import aclosing, asynccontextmanager, suppress

import msgspec
import pytest

from council.envelope import read_envelope
from council.limits import council_limits
from council.roles import role_table
from gaiad.base.clock import SystemClock
from gaiad.base.errors import DeadlineExceeded, Unavailable
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.wire.generation import TextDelta
from tests.makers.chat_llama import write_chat_llama
from tests.makers.council_house import ROLES, House, RoleModel
from tests.makers.council_of_workers import StruckRole, workers

FAULTS = ("killed", "stopped", "slow")
ASKED = {
    "plan": "think step by step",
    "refine": "errors, gaps and risks",
    "act": "Answer the user now",
    "verify": "the plan, step by step",
    "review": "Review the proposed command",
    "vote": "Vote yes, no or abstain",
}
SAID = {
    "verify": 'VERIFY: {"outcome": "success", "summary": "it is done"}',
    "plan": 'PLAN: {"steps": ["Look at the folder", "Say what is old"]}',
    "refine": 'PLAN: {"confidence": 0.8, "steps": ["Say what is old"]}',
    "act": "RESPONSE: I would remove old.log.",
    "review": '{"verdict": "accept", "reason": "as asked"}',
    "vote": '{"vote": "yes", "confidence": 0.9, "reason": "I think so"}',
}
STAGES = ("plan", "refine", "act", "verify")
COMMAND = 'EXECUTE: {"argv": ["rm", "old.log"], "why": "it is old"}\n'
WISH = "Please delete the old log files in the folder."
BUSY = min(5.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / 2))
"""How much longer things take here than beside the tests that run at the same time: 1 in an ordinary run."""
UNTROUBLED_S = 6.0  # for a clock that does not see how busy the machine is
QUICK_S, VOTE_S, REVIEW_S, DYING_S = UNTROUBLED_S * BUSY, 2.0 * BUSY, 1.5 * BUSY, 0.6
ENDS = ("SUCCESS", "PARTIAL", "UNVERIFIED", "REVERTED", "ASKS_PERSON")
UNHURRIED_S = 60.0
"""For turns that end by themselves: who is silent in a vote costs its time and no more."""
SLACK_S = 30.0
"""What a loaded machine may take to write down how the turn ended."""


def scripts(*first, wants=""):
    """What every role says at every stage; the `first` are tried before, and Act `wants` a command."""
    after = ScriptedReply(text="RESPONSE: I am here.", match="And now")
    acts = ScriptedReply(text=wants + SAID["act"], match=ASKED["act"])
    return [after, *first, acts, *(ScriptedReply(text=SAID[stage], match=ASKED[stage]) for stage in SAID)]


def kill(pid):
    """After it was asked, before it can write."""
    stop(pid)
    asyncio.get_running_loop().call_later(DYING_S, send, pid, signal.SIGKILL)


def cut_down(pid):
    send(pid, signal.SIGKILL)


def stop(pid):
    send(pid, signal.SIGSTOP)


def send(pid, what):
    """A worker that is gone already, or does not answer and is replaced, gets no signal; 0 would be all of us."""
    assert pid > 0
    with suppress(ProcessLookupError):
        os.kill(pid, what)


STRIKES = {"killed": (kill, 0), "stopped": (stop, 0), "frozen": (stop, 12), "broken": (cut_down, 3)}
"""What happens to the worker, after how many pieces of its text."""


def stages_of(role, stage):
    """Stages as shipped, but that this role has this one; who verifies has not acted."""
    owners = {one: name for name, entry in role_table().roles.items() for one in entry.stages} | {stage: role}
    if owners["act"] == owners["verify"]:
        owners["act" if stage == "verify" else "verify"] = next(one for one in ROLES if one != role)
    return {name: [one for one, owner in owners.items() if owner == name] for name in ROLES}


class TricklingTime(SystemClock):
    """No second passes but those that a trickling role takes, however busy the machine is."""

    passed_s = 0.0

    def monotonic(self):
        return self.passed_s


class TricklingRole(RoleModel):
    """A quarter of a second of its house's time passes before each character of what it writes bit by bit."""

    async def generate(self, request, call):
        async with aclosing(super().generate(request, call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta) and len(piece.text) == 1:
                    self._time.passed_s += 0.25
                yield piece


class Struck:
    """A house in which roles fail: `faults` is role -> (fault, stage)."""

    def __init__(self, house, pool, faults):
        self.house = house
        self._wants = COMMAND if {stage for _, stage in faults.values()} & {"review", "vote"} else ""
        for role in ROLES:
            house.models[role] = RoleModel(role, scripts(wants=self._wants), house.clock)
        for role, (fault, stage) in faults.items():
            house.models[role] = self._role(role, pool, fault, stage)

    def _role(self, role, pool, fault, stage):
        match, clock = ASKED[stage], self.house.clock
        if fault in STRIKES:
            return StruckRole(role, scripts(wants=self._wants), clock, pool.model(role), match, *STRIKES[fault])
        if fault == "trickling":
            said = ScriptedReply(text=SAID[stage], match=match, chunk_characters=1)
            return TricklingRole(role, scripts(said, wants=self._wants), clock)
        said = ScriptedReply(text=SAID[stage], match=match, delay_ms=60_000.0)
        return RoleModel(role, scripts(said, wants=self._wants), clock)

    async def take(self):
        """The answer and the record of the turn, which is never later than its deadline."""
        started = self.house.clock.monotonic()
        try:
            events = await self.house.events(WISH, persona="engineer")
        finally:
            assert self.house.clock.monotonic() - started < self.house.council.full_deadline_s + SLACK_S
        answer = events[-1][1]
        assert answer.answer == left_on_screen(events)
        turn = await self.house.turn_log.find("local", answer.turn_id)
        await nothing_is_lost(self.house, turn)
        return answer, turn

    async def goes_on(self):
        """The next turn has an answer, be it of a stand-in, or of the worker that came after the one that failed."""
        answer, _ = await self.house.say("And now?", depth="fast")
        assert answer.answer
        assert answer.status in ("SUCCESS", "PARTIAL")

    def let_go(self):
        for model in self.house.models.values():
            for pid in getattr(model, "pids", ()):
                send(pid, signal.SIGCONT)


@pytest.fixture
async def strike(tmp_path, open_archive, config):
    """Each house with workers of its own: one that is stopped in this house answers late in no other."""
    numbers = itertools.count()
    path = write_chat_llama(tmp_path / "chat.gguf")

    @asynccontextmanager
    async def opened(stages=None, /, deadline_s=QUICK_S, **faults):
        struck = [role for role, (fault, _) in faults.items() if fault in STRIKES]
        trickles = any(fault == "trickling" for fault, _ in faults.values())
        clock = TricklingTime("UTC") if trickles else SystemClock("UTC")
        async with (
            workers(clock, dict.fromkeys(struck, path)) as pool,
            housed(clock, stages, deadline_s, faults, pool) as one,
        ):
            yield one

    @asynccontextmanager
    async def housed(clock, stages, deadline_s, faults, pool):
        folder = tmp_path / f"house{next(numbers)}"
        folder.mkdir()
        vote_s = UNHURRIED_S if all(fault == "killed" for fault, _ in faults.values()) else VOTE_S  # nobody is silent
        settings = {"stages": stages or {}, "deadline_s": deadline_s, "full_deadline_s": deadline_s, "vote_s": vote_s}
        archive = await open_archive(folder / "archive")
        house = House(folder, archive, clock, config, {}, **settings)
        execute = msgspec.structs.replace(house.limits.execute, review_s=REVIEW_S)
        house.limits = msgspec.structs.replace(council_limits(), execute=execute)
        struck = Struck(house, pool, faults)
        await house.open()
        try:
            yield struck
        finally:
            struck.let_go()
            await house.close()

    return opened


async def everything_said(house, turn):
    """The turn's messages, which stand in the log in the order of their ids, each once."""
    stored = await house.log.of_turn("local", turn.turn_id)
    ids = [one.full_id for one in stored]
    assert ids == sorted(set(ids))
    assert ids == [one.full_id for one in await house.log.after("local", "", 500) if one.turn_id == turn.turn_id]
    return [read_envelope(one.body) for one in stored]


def expected(turn):
    """What must have been said, from the record of the stages and votes: (sender, type, its beginning)."""
    for row in turn.stages:
        if row.stage == "observe":
            continue  # a look is only spoken of when it interrupts
        begins = {"plan": "PLAN:\n", "refine": "PLAN:\n", "act": "RESPONSE of ", "verify": "VERIFY: "}[row.stage]
        begins = {"lost": f"{row.stage} was lost: ", "missing": f"{row.stage}: missing ("}.get(row.verdict, begins)
        if any(re.match(r"(\d+) of \1 steps ", note) for note in row.notes):
            begins = f"{row.stage}: "  # random weights wrote a plan that names nothing of the request
        yield row.role, "INFO", begins
        for vote in turn.votes if row.stage == "act" and row.verdict == "ok" else ():
            yield None, "INFO", '{"argv"'
            yield row.role, "PROPOSAL", ""
            yield from ((ballot.role, "VOTE", "") for ballot in vote.ballots)
            yield "gaiad", "INFO", '{"passed"'


async def nothing_is_lost(house, turn):
    said, wanted = await everything_said(house, turn), [*expected(turn)]
    raised = [one.full_id for one in said if one.type == "ESCALATION"]
    assert raised == [one.message_id for one in turn.escalations]
    said = [one for one in said if one.type != "ESCALATION"]
    assert [one.type for one in said] == [kind for _, kind, _ in wanted], (said, wanted)
    for one, (sender, _, begins) in zip(said, wanted, strict=True):
        assert one.content.startswith(begins)
        assert sender in (None, one.sender)
    papers = {one.full_id for one in said if one.type == "PROPOSAL"}
    assert {one.parent_full_id for one in said if one.type == "VOTE"} <= papers


def left_on_screen(events):
    """What a person who sees every event has before them at the end."""
    shown = ""
    for name, data in events:
        shown = "" if name == "retract" else shown + data["text"] if name == "delta" else shown
    return shown


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_role_that_fails_at_a_stage_is_stood_in_for(strike, fault, stage):
    async def one(role):
        async with strike(stages_of(role, stage), **{role: (fault, stage)}) as struck:
            answer, turn = await struck.take()
            rows = [row for row in turn.stages if row.stage == stage]
            done = "success" if stage == "verify" else "ok"
            assert [(row.role == role, row.verdict) for row in rows] == [(True, "lost"), (False, done)], rows
            assert rows[0].notes, "it says what happened"
            assert rows[1].stands_in_for == role
            assert (answer.status, answer.reduced_quorum, turn.status) == ("SUCCESS", False, "SUCCESS")
            assert answer.answer == "I would remove old.log."
            doers = {row.stage: row.role for row in turn.stages if row.verdict != "lost"}
            assert doers["act"] != doers["verify"]
            await struck.goes_on()

    await asyncio.gather(*map(one, ROLES))


@pytest.mark.parametrize("fault", ["frozen", "broken", "trickling"])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_role_that_falls_silent_in_mid_word_costs_its_stage_its_time_and_no_more(strike, fault, stage):
    async def one(role):
        quick_s = UNTROUBLED_S if fault == "trickling" else QUICK_S
        deadline_s = quick_s * (2 if (stage, fault) == ("act", "frozen") else 1)  # Act takes all but the last second
        async with strike(stages_of(role, stage), deadline_s, **{role: (fault, stage)}) as struck:
            answer, turn = await struck.take()
            row = next(row for row in turn.stages if row.stage == stage)
            assert (row.role, row.notes != []) == (role, True), row
            assert answer.status == turn.status
            assert answer.status in ENDS, "what random weights wrote of a plan or a verdict counts, too"
            assert answer.answer
            await struck.goes_on()

    await asyncio.gather(*map(one, ROLES))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_role_that_fails_in_a_vote_is_silent_there(strike, fault):
    async def one(role):
        async with strike(deadline_s=UNHURRIED_S, **{role: (fault, "vote")}) as struck:
            answer, turn = await struck.take()
            (vote,) = turn.votes
            assert {ballot.role for ballot in vote.ballots} == {*ROLES} - {role}
            assert (vote.passed, vote.may_proceed, vote.reduced_quorum) == (True, True, False), vote
            assert f"{role} gave no ballot: " in vote.reason
            assert (answer.reduced_quorum, answer.answer) == (False, SAID["act"].removeprefix("RESPONSE: "))
            await struck.goes_on()

    await asyncio.gather(*map(one, ROLES))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_command_that_one_role_alone_votes_on_is_refused(strike, fault):
    async def one(role):
        others = [name for name in ROLES if name != role]
        async with strike(deadline_s=UNHURRIED_S, **dict.fromkeys(others, (fault, "vote"))) as struck:
            _, turn = await struck.take()
            (vote,) = turn.votes
            assert [ballot.role for ballot in vote.ballots] == [role]
            assert (vote.passed, vote.may_proceed) == (False, False), vote
            assert f"silent: {', '.join(sorted(others))}" in vote.reason
            assert all(f"{name} gave no ballot: " in vote.reason for name in others)

    await asyncio.gather(*map(one, ROLES))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_reviewer_that_fails_is_stood_in_for(strike, fault):
    async with strike(deadline_s=UNHURRIED_S, codemind=(fault, "review")) as struck:
        _, turn = await struck.take()
        (reviewed,) = [one for one in await everything_said(struck.house, turn) if one.role == "reviewer"]
        assert reviewed.sender == "lite"
        assert (turn.votes[0].passed, len(turn.votes[0].ballots)) == (True, 3)


async def test_when_two_of_three_are_lost_the_turn_ends_with_fewer_than_a_quorum_and_says_so(strike):
    async with strike(lite=("killed", "plan"), codemind=("killed", "verify")) as struck:
        answer, turn = await struck.take()
        assert [row.role for row in turn.stages if row.verdict == "lost"] == ["lite", "codemind"]
        assert (turn.stages[-1].role, turn.stages[-1].verdict) == ("prime", "success")
        assert (answer.status, answer.reduced_quorum, turn.reduced_quorum) == ("SUCCESS", True, True)


@pytest.mark.parametrize("fault", ["killed", "stopped"])
async def test_when_nobody_can_act_the_turn_is_refused_in_time_and_stands_in_the_log(strike, fault):
    async with strike(**dict.fromkeys(ROLES, (fault, "act"))) as struck:
        with pytest.raises((Unavailable, DeadlineExceeded), match=r"prime|deadline"):
            await struck.take()
        (turn,) = await struck.house.turn_log.newest("local", 5)
        assert (turn.status, turn.end_why != "") == ("REFUSED", True)
        assert next(row.verdict for row in turn.stages if row.stage == "act") == "lost"
        await nothing_is_lost(struck.house, turn)
