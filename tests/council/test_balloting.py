"""A vote ends with one decision by the rule, whatever the roles do, and all of it stands on record."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from council.balloting import Balloting
from council.ballots import read_ballot_text
from council.limits import council_limits
from council.quorum import council_rules
from council.voting import Voting
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, Unavailable, WorkerDied
from gaiad.base.ports import RequestContext
from tests.makers.council import ROLES, MadeAudit, MadeFloor, MadeSpeaker, MadeTime, ballot

LIMITS = council_limits().voting
RULES = council_rules()


class Council:
    """All parts of a vote; `decide` runs one to its end."""

    def __init__(self, **words):
        self.time = MadeTime()
        self.floor, self.audit = MadeFloor(self.time), MadeAudit()
        self.speaker = MadeSpeaker(self.time, **{role: ballot() for role in ROLES} | words)
        self.voting = Voting(RULES, LIMITS)
        self.balloting = Balloting(
            self.floor, self.speaker, self.voting, self.audit, self.time, LIMITS, sleep=self.time.sleep
        )

    def start(self, matter="execute", call=None, subject="Run it?"):
        return self.balloting.decide(
            "local", matter, "prime", subject, call or RequestContext(), turn_id="turn_1", session_id="ses_1"
        )

    async def decide(self, *args, **more):
        return await self.time.run(self.start(*args, **more))


async def test_every_role_is_asked_by_itself_and_all_is_on_record() -> None:
    council = Council(codemind=ballot("no", 0.9, "it deletes too much"))
    decision, record = await council.decide()
    assert (decision.passed, decision.closed_by) == (True, "all_voted")
    assert record.reason == "passed by majority (2 yes, 1 no, 0 abstained)"
    assert {one.role: (one.vote, one.confidence, one.reason) for one in record.ballots}["codemind"] == (
        "no", 0.9, "it deletes too much",
    )  # fmt: skip
    assert [ask.role for ask in council.speaker.asks] == list(ROLES), "the proposer votes too"
    for ask in council.speaker.asks:
        assert (ask.subject, ask.task_instruction, ask.session_id) == ("Run it?", "ballot", "ses_1")
        assert ask.form.schema is not None
        assert set(ask.form.schema["properties"]) == {"vote", "confidence", "reason"}
    (paper,) = council.floor.of("PROPOSAL")
    assert (paper.full_id, paper.sender) == (record.proposal_id, "prime")
    votes = council.floor.of("VOTE")
    assert {vote.parent_full_id for vote in votes} == {paper.full_id}
    assert {vote.sender: vote.confidence for vote in votes} == {"prime": 0.8, "lite": 0.8, "codemind": 0.9}
    (told,) = council.floor.of("INFO")
    assert (told.sender, told.parent_full_id) == ("gaiad", paper.full_id)
    assert msgspec.json.decode(told.content)["passed"] is True
    kinds = [kind for kind, *_ in council.audit.rows]
    assert kinds == ["council.proposal", *["council.ballot"] * 3, "council.decision"]
    assert {tenant for *_, tenant in council.audit.rows} == {"local"}
    assert {turn for _, turn, _ in council.floor.posts} == {"turn_1"}


async def test_no_ballot_can_know_another() -> None:
    council = Council(prime=(3, ballot("yes")), lite=ballot("no"), codemind=(1, ballot("no")))
    await council.decide()
    assert len(council.speaker.asks) == 3
    assert len({(ask.subject, ask.task_instruction) for ask in council.speaker.asks}) == 1
    assert council.time.monotonic() == 3, "all were asked at once"


async def test_without_a_quorum_nobody_is_asked_and_the_decision_says_so() -> None:
    council = Council()
    council.floor.active = {"prime"}
    for matter, proceeds in (("execute", False), ("governance", False), ("answer", True)):
        decision, record = await council.decide(matter)
        assert (decision.passed, decision.may_proceed, decision.reduced_quorum) == (False, proceeds, True)
        assert record.reason.startswith("no quorum: 2 roles that can vote are needed")
    assert council.speaker.asks == []
    assert council.time.monotonic() == 0, "it waits for nobody"
    assert len(council.audit.of("council.decision")) == 3


async def test_a_role_that_fails_or_writes_no_ballot_is_silent_and_nobody_waits_for_it() -> None:
    council = Council(lite=WorkerDied("lite: its worker ended"), codemind="I like turtles.")
    decision, record = await council.decide()
    assert (decision.passed, decision.may_proceed, decision.closed_by) == (False, False, "all_heard")
    assert decision.tally.silent == ("codemind", "lite")
    assert record.reason.startswith("no quorum: 2 ballots are needed and 1 were cast, though enough roles are active; ")
    assert "lite gave no ballot: lite: its worker ended" in record.reason
    assert "codemind gave no ballot: what it wrote is not a ballot" in record.reason
    assert "JSON" not in record.reason
    assert council.time.monotonic() == 0


async def test_a_fault_in_the_speaker_itself_costs_only_that_role() -> None:
    council = Council(lite=KeyError("template"))
    decision, record = await council.decide()
    assert (decision.passed, decision.tally.silent) == (True, ("lite",))
    assert "lite gave no ballot: an internal error; the log has it" in record.reason


async def test_a_late_ballot_is_recorded_and_not_counted() -> None:
    council = Council(prime=ballot("no"), lite=ballot("yes"), codemind=(LIMITS.deadline_s + 5, ballot("yes")))
    decision, record = await council.decide()
    assert (decision.passed, decision.closed_by, council.time.monotonic()) == (False, "deadline", LIMITS.deadline_s)
    assert len(council.floor.of("VOTE")) == len(record.ballots) == 2
    assert "codemind gave no ballot: too slow" in record.reason
    await council.time.pass_by(10)
    late = council.floor.of("VOTE")[-1]
    assert (late.sender, msgspec.json.decode(late.content)["uncounted"]) == ("codemind", "late")
    assert [body["uncounted"] for _, body in council.audit.of("council.ballot")] == ["", "", "late"]
    assert council.voting.round(record.proposal_id).decision == decision, "it decides nothing any more"


async def test_a_role_that_never_comes_to_an_end_is_stopped() -> None:
    council = Council(lite=(10_000, ballot("no")))
    await council.decide()
    await council.time.pass_by(LIMITS.late_s + 1)
    assert council.speaker.calls[1].cancelled
    assert council.speaker.calls[1].deadline == LIMITS.deadline_s + LIMITS.late_s
    assert len(council.floor.of("VOTE")) == 2
    await council.balloting.close()


async def test_a_role_that_becomes_inactive_meanwhile_is_not_waited_for_nor_counted() -> None:
    council = Council(codemind=(10_000, ballot("no")), lite=(5, ballot()))

    async def leave() -> None:
        await council.time.sleep(2)
        council.floor.active.discard("codemind")

    leaving = asyncio.get_running_loop().create_task(leave())
    decision, _ = await council.decide()
    await leaving
    assert (decision.closed_by, decision.tally.silent, council.time.monotonic()) == ("all_voted", (), 5)
    await council.balloting.close()


async def test_the_calls_deadline_closes_the_round_earlier() -> None:
    council = Council(lite=(30, ballot()))
    decision, _ = await council.decide(call=RequestContext(deadline=10.0))
    assert (decision.closed_by, decision.at) == ("deadline", 10.0)
    with pytest.raises(DeadlineExceeded):
        await council.decide(call=RequestContext(deadline=10.0))
    await council.balloting.close()


async def test_another_time_for_rounds_holds_from_the_next_one_on() -> None:
    council = Council(lite=(30, ballot()))
    council.balloting.use(3.0)
    decision, _ = await council.decide()
    assert (decision.closed_by, decision.at) == ("deadline", 3.0)
    await council.balloting.close()


async def test_a_caller_that_leaves_withdraws_the_proposal() -> None:
    council, call = Council(lite=(30, ballot())), RequestContext()

    async def leave() -> None:
        await council.time.sleep(4)
        call.cancel()

    leaving = asyncio.get_running_loop().create_task(leave())
    with pytest.raises(Cancelled):
        await council.decide(call=call)
    await leaving
    await council.time.settle()
    assert council.voting.open_rounds() == []
    assert [kind for kind, *_ in council.audit.rows][-1] == "council.withdrawn"
    assert council.floor.of("INFO")[-1].content.startswith("withdrawn")
    assert council.audit.of("council.decision") == []


async def test_a_cancelled_task_withdraws_it_too() -> None:
    council = Council(lite=(30, ballot()))
    task = asyncio.get_running_loop().create_task(council.start())
    await council.time.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await council.time.settle()
    assert (council.voting.open_rounds(), len(council.audit.of("council.withdrawn"))) == ([], 1)
    assert council.speaker.calls[1].cancelled


async def test_closing_makes_no_decision_of_half_the_ballots() -> None:
    council = Council(lite=(30, ballot("no")), codemind=(30, ballot("no")))
    task = asyncio.get_running_loop().create_task(council.start())
    await council.time.settle()
    await council.balloting.close()
    with pytest.raises(Cancelled):
        await task
    assert council.audit.of("council.decision") == []


async def test_what_cannot_be_recorded_decides_nothing() -> None:
    council = Council()
    council.floor.full = "PROPOSAL"
    with pytest.raises(Unavailable, match="disk is full"):
        await council.decide()
    assert council.speaker.asks == []
    council.floor.full = "VOTE"
    with pytest.raises(Unavailable, match="a ballot cannot be recorded"):
        await council.decide()
    assert council.audit.of("council.decision") == []


async def test_a_proposal_that_the_audit_does_not_take_is_withdrawn() -> None:
    council = Council()
    append = council.audit.append

    async def full(kind, *more):
        if kind == "council.proposal":
            raise Unavailable("the disk is full; make room")
        return await append(kind, *more)

    council.audit.append = full
    with pytest.raises(Unavailable, match="disk is full"):
        await council.decide()
    await council.time.settle()
    assert council.floor.of("INFO")[-1].content.startswith("withdrawn")
    assert council.audit.of("council.withdrawn")
    assert council.speaker.asks == []


async def test_the_audit_keeps_the_words_of_governance_alone() -> None:
    council = Council()
    await council.decide("execute", subject="The user asked: where is Ann?")
    kept = str([body for _, _, body, _ in council.audit.rows])
    assert "Ann" not in kept
    assert "it is sound" not in kept
    [(_, body)] = council.audit.of("council.proposal")
    assert len(body["subject_sha256"]) == 64
    assert all(len(body["reason_sha256"]) == 64 for _, body in council.audit.of("council.ballot"))
    await council.decide("governance", subject="Another tone")
    assert council.audit.of("council.proposal")[-1][1]["subject"] == "Another tone"
    assert council.audit.of("council.ballot")[-1][1]["reason"] == "it is sound"


async def test_a_ballots_reason_shows_no_secret() -> None:
    key = "AKIA" + "Q7" * 8
    council = Council(lite=ballot("no", 0.5, f"it prints {key}"))
    _, record = await council.decide()
    assert key not in str(council.floor.posts) + str(council.audit.rows) + str(record)
    assert "withheld: it shows an AWS access key" in str(record)


async def test_sleeping_roles_are_woken_before_the_proposal() -> None:
    council = Council()
    council.floor.active = {"prime"}

    async def rouse(call: RequestContext):
        council.floor.active = set(ROLES)
        return council.floor.seats()

    balloting = Balloting(
        council.floor, council.speaker, council.voting, council.audit, council.time, LIMITS,
        sleep=council.time.sleep, rouse=rouse,
    )  # fmt: skip
    decision, _ = await council.time.run(balloting.decide("local", "execute", "lite", "Run it?", RequestContext()))
    assert (decision.passed, len(council.speaker.asks)) == (True, 3)


async def test_rounds_side_by_side_do_not_touch_each_other() -> None:
    council = Council(lite=[(2, ballot("no")), (7, ballot("no"))], prime=ballot("no"))

    async def both():
        return await asyncio.gather(council.start(subject="A?"), council.start(subject="B?"))

    (one, _), (two, _) = await council.time.run(both())
    assert one.proposal_id != two.proposal_id
    assert {one.at, two.at} == {2, 7}
    assert not one.passed
    assert not two.passed


OUTCOMES = st.one_of(
    st.tuples(st.floats(0, 100).map(lambda t: round(t, 1)), st.sampled_from(["yes", "no", "abstain"]).map(ballot)),
    st.sampled_from(["nonsense", Unavailable("busy"), ValueError("a fault")]),
)


@settings(max_examples=150)
@given(
    words=st.fixed_dictionaries(dict.fromkeys(ROLES, OUTCOMES)),
    active=st.sets(st.sampled_from(ROLES)),
    able=st.sets(st.sampled_from(ROLES)),
    matter=st.sampled_from(["answer", "execute", "governance"]),
)
def test_any_course_keeps_the_rules(words, active, able, matter) -> None:
    async def course() -> None:
        council = Council(**words)
        council.floor.active, council.floor.able = active, able
        decision, record = await council.decide(matter)
        await council.time.pass_by(200)
        voting = active & able
        assert decision.at <= LIMITS.deadline_s
        assert {ask.role for ask in council.speaker.asks} == (voting if len(voting) >= 2 else set())
        if len(voting) < 2:
            assert not decision.passed
            assert decision.may_proceed is (matter == "answer")
        posted = council.floor.of("VOTE")
        assert len({vote.sender for vote in posted}) == len(posted), "nobody votes twice"
        last = LIMITS.deadline_s + LIMITS.late_s
        asked = voting if len(voting) >= 2 else set()
        heard = {role for role in asked if isinstance(words[role], tuple) and words[role][0] < last}
        in_time = {role for role in heard if words[role][0] < LIMITS.deadline_s}
        assert decision.reduced_quorum is not (len(voting if matter == "answer" else in_time) >= 2)
        assert decision.may_proceed <= (matter == "answer" or len(in_time) >= 2)
        counted = {vote.sender for vote in posted if not msgspec.json.decode(vote.content)["uncounted"]}
        assert counted == in_time == {one.role for one in record.ballots if not one.uncounted}
        assert {vote.sender for vote in posted} == heard, "late ones are recorded"
        assert len(council.audit.of("council.decision")) == 1
        assert council.voting.open_rounds() == []
        await council.balloting.close()

    asyncio.run(course())


@pytest.mark.parametrize(
    ("text", "vote", "confidence", "reason"),
    [
        (ballot("no", 0.25, "why not"), "no", 0.25, "why not"),
        (f"```json\n{ballot('yes', 1)}\n```", "yes", 1.0, "it is sound"),
        (f"<think>yes or no?</think>{ballot('abstain', 0.5)}", "abstain", 0.5, "it is sound"),
        ('{"vote": "yes", "confidence": 0.9, "reason": "because it w', "yes", 0.9, "because it w"),
        ('{"vote": "no"', "no", 0.0, "no reason was given"),
        ("VOTE: no, confidence=0.7. It deletes files.", "no", 0.7, "confidence=0.7. It deletes files"),
        ("**Vote:** Yes. It only reads.", "yes", 0.0, "It only reads"),
        ("No.\nIt removes a whole tree.", "no", 0.0, "It removes a whole tree"),
        ('{"vote": "yes", "confidence": 7, "reason": "sure"}', "yes", 0.0, "sure"),
    ],
)
def test_ballots_of_models_without_a_grammar_are_read(text, vote, confidence, reason) -> None:
    form = read_ballot_text(text)
    assert (form.vote, form.confidence, form.reason) == (vote, confidence, reason)


@pytest.mark.parametrize(
    "text",
    ["", "I like it.", "No problem with this", "Yes, or rather no.", '{"vote": "yes"} {"vote": "no"}',
     "VOTE: yes.\nVOTE: no.", "maybe", '{"verdict": "yes"}', "\ud800"],
)  # fmt: skip
def test_what_is_no_ballot_or_more_than_one_is_none(text) -> None:
    with pytest.raises(BadInput):
        read_ballot_text(text)


@given(st.text(max_size=400))
def test_any_text_is_a_ballot_or_is_refused(text) -> None:
    try:
        form = read_ballot_text(text)
    except BadInput:
        return
    assert 0 <= form.confidence <= 1
    assert 1 <= len(form.reason) <= 300
