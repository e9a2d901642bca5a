"""Turns over a real memory and a real log, of scripted roles: keys, lost writes, what the log lines carry."""

import pytest
import structlog

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Conflict, WorkerDied
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatAnswer, ChatRequest
from tests.makers.council_house import ROLES, House


class LosingKeeper(TurnStore):
    """Cannot write the log, or the memory."""

    lost = frozenset()

    async def keep(self, session_id, sent, tenant):
        if "log" in self.lost:
            raise OSError("disk full")
        await super().keep(session_id, sent, tenant)

    async def remember(self, turn, tenant):
        if "memory" in self.lost:
            raise Conflict("the number is taken")
        await super().remember(turn, tenant)


class Stage:
    """A house whose every role says the same, and one session in it."""

    def __init__(self, house):
        self.house, self.archive, self.taker, self.turn_store = house, house.archive, house.taker, house.turn_store
        self.histories, self.contexts = [], []
        gather = house.assembler.gather

        async def noting(request, names, turns, call, on_event, **more):
            self.histories.append(len(turns))
            self.contexts.append(structlog.contextvars.get_contextvars())
            return await gather(request, names, turns, call, on_event, **more)

        house.assembler.gather = noting

    async def say(self, message, call, **more):
        request = ChatRequest(message=message, **{"session_id": "s", "role": "codemind", **more})
        answer = [data async for _, data in self.taker.take(request, call)][-1]
        assert isinstance(answer, ChatAnswer)
        return answer

    async def leave(self, message, call, **more):
        """Go after the first words."""
        events = self.taker.take(ChatRequest(message=message, session_id="s", role="codemind", **more), call)
        async for name, _ in events:
            if name == "delta":
                break
        await events.aclose()

    async def turns(self, call):
        return await self.archive.session_turns("s", call)


@pytest.fixture
async def make_stage(open_archive, tmp_path, config):
    houses = []

    async def make(**reply):
        said = [ScriptedReply(**{"text": "RESPONSE: I heard you.", **reply})]
        home = tmp_path / "house"
        home.mkdir()
        clock, says = SystemClock("UTC"), dict.fromkeys(ROLES, said)
        house = House(home, await open_archive(), clock, config, says, turn_store=LosingKeeper, history_turns=2)
        houses.append(await house.open())
        return Stage(house)

    yield make
    for house in houses:
        await house.close()


async def test_a_log_that_cannot_be_written_costs_neither_answer_nor_memory(make_stage, call):
    stage = await make_stage()
    stage.turn_store.lost = {"log"}
    answer = await stage.say("hello", call)
    assert (answer.answer, answer.status) == ("I heard you.", "SUCCESS")
    assert answer.notes == ["its packet was not kept: OSError('disk full')"]
    assert [turn.answer for turn in await stage.turns(call)] == ["I heard you."]


async def test_a_memory_that_cannot_be_written_costs_neither_answer_nor_packet(make_stage, call):
    stage = await make_stage()
    stage.turn_store.lost = {"memory"}
    answer = await stage.say("hello", call)
    assert answer.answer == "I heard you."
    assert answer.notes == ["not remembered: the number is taken"]
    last = await stage.turn_store.last_packet("s", call, stage.house.models["codemind"].fingerprint)
    assert last is not None
    assert last.packet_id == answer.packet_id


async def test_a_lost_write_does_not_hide_the_error_of_the_model(make_stage, call):
    stage = await make_stage(error="worker_died")
    stage.turn_store.lost = {"log", "memory"}
    with pytest.raises(WorkerDied, match="the script says"):
        await stage.say("hello", call)


async def test_a_key_with_another_message_is_a_conflict_that_names_it(make_stage, call):
    stage = await make_stage()
    await stage.say("hello", call, idempotency_key="k1")
    with pytest.raises(Conflict, match="'k1' came with another message"):
        await stage.say("good day", call, idempotency_key="k1")
    assert len(await stage.turns(call)) == 1


async def test_a_repeat_is_found_though_the_history_has_passed_it(make_stage, call):
    stage = await make_stage()
    first = await stage.say("hello", call, idempotency_key="k1")
    for number in range(3):
        await stage.say(f"and {number}", call)
    again = await stage.say("hello", call, idempotency_key="k1")
    assert (again.turn_id, again.history.why) == (first.turn_id, "this turn was taken before")
    assert len(await stage.turns(call)) == 4


async def test_a_turn_that_was_broken_off_is_taken_anew_and_then_it_is_the_keys(make_stage, call):
    stage = await make_stage(chunk_characters=14)
    for _ in range(2):
        await stage.leave("hello", call, idempotency_key="k1")
    whole, again = [await stage.say("hello", call, idempotency_key="k1") for _ in range(2)]
    assert (whole.answer, whole.status) == ("I heard you.", "SUCCESS")
    assert again.turn_id == whole.turn_id
    kept = await stage.turns(call)
    assert [turn.status for turn in kept] == ["CANCELLED", "CANCELLED", "SUCCESS"]
    assert kept[-1].turn_id == whole.turn_id
    assert len({turn.turn_id for turn in kept}) == 3


async def test_the_persona_that_was_chosen_stands_in_the_memory(make_stage, call):
    stage = await make_stage()
    await stage.say("hello", call, persona="brief")
    await stage.say("hello", call)
    assert [turn.metadata for turn in await stage.turns(call)] == [{"chosen_persona": "brief"}] * 2


async def test_a_session_keeps_its_project_until_another_is_named(make_stage, call):
    stage = await make_stage()
    personas = stage.house.home / "registry" / "personas"
    personas.mkdir(parents=True)
    for project in ("garden", "boat"):
        entry = f'[of_{project}]\ntone = "calm"\nstyle_notes = "short"\nscope = "project"\nprojects = ["{project}"]\n'
        (personas / f"{project}.toml").write_text(entry)
    said = [await stage.say("hello", call, **more) for more in ({"project": "garden"}, {}, {"project": "boat"}, {})]
    assert [answer.persona for answer in said] == ["of_garden", "of_garden", "of_boat", "of_boat"]
    rendered = await stage.taker.render(ChatRequest(message="and?", session_id="s", role="codemind"), call)
    assert "persona 'of_boat' was not judged" in rendered.notes[0]
    assert (await stage.say("hello", call, session_id="another")).persona == "plain"


async def test_history_may_be_given_another_length(make_stage, call):
    stage = await make_stage()
    for _ in range(3):
        await stage.say("hello", call)
    stage.taker.use_history(1)
    await stage.say("hello", call)
    assert stage.histories == [0, 1, 2, 1]


async def test_log_lines_of_a_turn_have_its_names_and_later_ones_do_not(make_stage, call):
    stage = await make_stage()
    answer = await stage.say("hello", call)
    await stage.leave("and now?", call)
    assert stage.contexts[0] == {"tenant": "local", "session_id": "s", "turn_id": answer.turn_id}
    assert stage.contexts[1]["turn_id"] != answer.turn_id
    assert structlog.contextvars.get_contextvars() == {}


async def test_a_turn_that_failed_may_be_taken_again_under_its_key(make_stage, call):
    stage = await make_stage(error="worker_died")
    with pytest.raises(WorkerDied):
        await stage.say("hello", call, idempotency_key="k1")
    with pytest.raises(WorkerDied):
        await stage.say("hello", call, idempotency_key="k1")
    (turn,) = await stage.house.turn_log.newest("local", 5)
    assert (turn.status, turn.notes) == ("REFUSED", [])


async def test_a_small_context_is_no_note_of_every_answer_but_one_of_a_rendering(make_stage, call):
    stage = await make_stage()
    stage.house.models["codemind"].window = 4000
    assert (await stage.say("hello", call)).notes == []
    rendered = await stage.taker.render(ChatRequest(message="and now?", session_id="s", role="codemind"), call)
    assert rendered.notes == ["codemind's context of 4000 tokens leaves an MTU of 3744"]


@pytest.mark.parametrize("depth", ["fast", "full"])
async def test_a_repeat_says_what_the_turn_said(make_stage, call, depth):
    stage = await make_stage()
    first = await stage.say("hello", call, idempotency_key="k1", depth=depth)
    again = await stage.say("hello", call, idempotency_key="k1", depth=depth)
    names = ("packet_id", "engine", "depth", "depth_why", "tokens", "answered", "end_why", "status", "notes", "answer")
    assert [getattr(again, name) for name in names] == [getattr(first, name) for name in names]
    assert again.depth == depth
    assert (again.engine, len(again.packet_id)) == (("codemind (scripted)", 8) if depth == "fast" else ("", 0))


async def test_a_repeat_of_a_turn_that_asked_the_person_is_no_answer_either(make_stage, call):
    stage = await make_stage()
    stage.house.models["lite"]._replies = [ScriptedReply(text="no plan")]
    stage.house.models["prime"]._replies = [ScriptedReply(text="no plan")]
    first, again = [await stage.say("hello", call, idempotency_key="k", depth="full", role="prime") for _ in range(2)]
    assert (first.answered, first.status) == (False, "ASKS_PERSON")
    assert (again.answered, again.status, again.turn_id) == (False, "ASKS_PERSON", first.turn_id)


async def test_a_repeat_whose_log_is_gone_has_what_the_memory_has(make_stage, call):
    stage = await make_stage()
    first = await stage.say("hello", call, idempotency_key="k1")
    gone = "DELETE FROM turn_records"
    assert await stage.house.databases.write("local", lambda connection: connection.execute(gone).rowcount) == 1
    again = await stage.say("hello", call, idempotency_key="k1")
    assert (again.turn_id, again.answer, again.packet_id, again.tokens) == (first.turn_id, first.answer, "", {})


async def test_a_key_without_a_session_has_a_session_of_its_own(make_stage, call):
    stage = await make_stage()
    first, again = [await stage.say("hello", call, session_id="", idempotency_key="k1") for _ in range(2)]
    assert (first.turn_id, first.session_id) == (again.turn_id, again.session_id)
    other = await stage.say("hello", call, session_id="", idempotency_key="k2")
    new = await stage.say("hello", call, session_id="")
    assert len({first.session_id, other.session_id, new.session_id}) == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"now": "yesterday"}, "now = 'yesterday': write it as ISO 8601"),
        ({"seed": -1}, "seed is -1; give a number from 0 to 4294967295"),
        ({"seed": 2**32}, "seed is 4294967296"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"mtu": -1}, "mtu -1 and max_tokens 0: give 0"),
        ({"message": " "}, "the message is empty"),
        ({"session_id": "a  b"}, "use printable characters"),
    ],
)
async def test_what_makes_no_sense_is_refused_though_nobody_would_read_it(make_stage, call, wrong, words):
    stage = await make_stage()
    with pytest.raises(BadInput, match=words):
        await stage.say(**{"message": "hello", "call": call, **wrong})
    with pytest.raises(BadInput, match=words):
        await stage.taker.render(ChatRequest(**{"message": "hello", **wrong}), call)
    assert stage.histories == []
