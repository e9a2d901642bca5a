"""Turns over a real memory and a real log, with a packet made by hand: keys, lost writes, what the log lines carry."""

import pytest
import structlog

from gaiad.chat_schemas import ChatAnswer, ChatRequest, HistoryNote
from gaiad.cognition import Prepared
from gaiad.errors import Conflict, WorkerDied
from gaiad.ids import IdMaker
from gaiad.ledger.cognition_log import CognitionLog
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.reading_ahead import ReadAhead
from gaiad.remembering import Keeper
from gaiad.turn import TurnTaker
from prompts.builder import build
from tests.makers.cognition import build_request


class Named(ScriptedModel):
    name, kind = "script", "scripted"


class ByHand:
    """Makes a packet without research, and notes the histories it got and the log's context."""

    def __init__(self, model):
        self.model, self.histories, self.contexts = model, [], []

    async def prepare(self, request, names, turns, previous, call, on_event):
        self.histories.append(len(turns))
        self.contexts.append(structlog.contextvars.get_contextvars())
        asked = build_request(
            full_id=names.full_id, turn_id=names.turn_id, user_prompt=request.message, reserve_tokens=64
        )
        return Prepared(
            built=await build(asked, self.model.tokenizer, None, call),
            model=self.model,
            persona="brief",
            chosen_persona=request.persona,
            history=HistoryNote(sought=False, why=""),
            found=None,
            needed=False,
            notes=[],
            took_ms=0.0,
        )


class LosingKeeper(Keeper):
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
    """A TurnTaker with all that it stands on."""

    def __init__(self, archive, log, clock, **reply):
        self.archive = archive
        self.hand = ByHand(Named("script", [ScriptedReply(**{"text": "RESPONSE: I heard you.", **reply})], clock))
        self.keeper = LosingKeeper(archive, log, clock)
        self.taker = TurnTaker(self.hand, archive, self.keeper, IdMaker(clock), 2, ReadAhead())

    async def say(self, message, call, **more):
        request = ChatRequest(message=message, session_id="s", **more)
        answer = [data async for _, data in self.taker.take(request, call)][-1]
        assert isinstance(answer, ChatAnswer)
        return answer

    async def leave(self, message, call, **more):
        """Go after the first words."""
        events = self.taker.take(ChatRequest(message=message, session_id="s", **more), call)
        async for name, _ in events:
            if name == "delta":
                break
        await events.aclose()

    async def turns(self, call):
        return await self.archive.session_turns("s", call)


@pytest.fixture
async def make_stage(open_archive, tmp_path, clock):
    log = CognitionLog(tmp_path / "cognition", clock)
    archive = await open_archive()
    yield lambda **reply: Stage(archive, log, clock, **reply)
    await log.close()


async def test_a_log_that_cannot_be_written_costs_neither_answer_nor_memory(make_stage, call):
    stage = make_stage()
    stage.keeper.lost = {"log"}
    answer = await stage.say("hello", call)
    assert (answer.answer, answer.status) == ("I heard you.", "SUCCESS")
    assert answer.notes == ["its packet was not kept: OSError('disk full')"]
    assert [turn.answer for turn in await stage.turns(call)] == ["I heard you."]


async def test_a_memory_that_cannot_be_written_costs_neither_answer_nor_packet(make_stage, call):
    stage = make_stage()
    stage.keeper.lost = {"memory"}
    answer = await stage.say("hello", call)
    assert answer.answer == "I heard you."
    assert answer.notes == ["not remembered: the number is taken"]
    last = await stage.keeper.last_packet("s", call.tenant)
    assert last is not None
    assert last.packet_id == answer.packet_id


async def test_a_lost_write_does_not_hide_the_error_of_the_model(make_stage, call):
    stage = make_stage(error="worker_died")
    stage.keeper.lost = {"log", "memory"}
    with pytest.raises(WorkerDied, match="the script says"):
        await stage.say("hello", call)


async def test_a_key_with_another_message_is_a_conflict_that_names_it(make_stage, call):
    stage = make_stage()
    await stage.say("hello", call, idempotency_key="k1")
    with pytest.raises(Conflict, match="'k1' came with another message"):
        await stage.say("good day", call, idempotency_key="k1")
    assert len(await stage.turns(call)) == 1


async def test_a_repeat_is_found_though_the_history_has_passed_it(make_stage, call):
    stage = make_stage()
    first = await stage.say("hello", call, idempotency_key="k1")
    for number in range(3):
        await stage.say(f"and {number}", call)
    again = await stage.say("hello", call, idempotency_key="k1")
    assert (again.turn_id, again.history.why) == (first.turn_id, "this turn was taken before")
    assert len(await stage.turns(call)) == 4


async def test_a_turn_that_was_broken_off_is_taken_anew_and_then_it_is_the_keys(make_stage, call):
    stage = make_stage(chunk_characters=14)
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
    stage = make_stage()
    await stage.say("hello", call, persona="brief")
    await stage.say("hello", call)
    assert [turn.metadata for turn in await stage.turns(call)] == [{"chosen_persona": "brief"}, {}]


async def test_history_may_be_given_another_length(make_stage, call):
    stage = make_stage()
    for _ in range(3):
        await stage.say("hello", call)
    stage.taker.use_history(1)
    await stage.say("hello", call)
    assert stage.hand.histories == [0, 1, 2, 1]


async def test_log_lines_of_a_turn_have_its_names_and_later_ones_do_not(make_stage, call):
    stage = make_stage()
    answer = await stage.say("hello", call)
    await stage.leave("and now?", call)
    assert stage.hand.contexts[0] == {"tenant": "local", "session_id": "s", "turn_id": answer.turn_id}
    assert stage.hand.contexts[1]["turn_id"] != answer.turn_id
    assert structlog.contextvars.get_contextvars() == {}
