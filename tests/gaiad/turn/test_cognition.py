"""Packets of turns: what a persona's grants allow, and that a dry run asks no model while it takes the same way."""

import pytest

from gaiad.base.config import CognitionConfig
from gaiad.ledger.turn_log import CognitionLog
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.research.loop import Researcher
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.cognition import Assembler
from gaiad.turn.prompt_factory import Names
from gaiad.turn.turn_store import TurnStore, decode_sent
from gaiad.turn.turns import rendering_of
from gaiad.wire.chat import ChatRequest
from gaiad.wire.memory import SessionTurn, TurnMessage
from prompts.messages import messages_of
from prompts.registry import RegistryWatch

OWN = """
[mine]
tone = "calm"
style_notes = "short"
[able]
tone = "calm"
style_notes = "short"
tools = ["research", "shell_with_approval"]
"""
QUESTION = "What did we decide about the walrus?"


class Asked(ScriptedModel):
    """Counts how often it is asked."""

    name, kind, window, times = "script", "scripted", 0, 0

    def generate(self, request, call):
        self.times += 1
        return super().generate(request, call)


class OneModelPool:
    """Every role has the same model."""

    def __init__(self, model):
        self._model = model

    def name_of(self, *, role):
        return self._model.name

    def model(self, name):
        return self._model

    def kind_of(self, name):
        return self._model.kind


class Desk:
    """An Assembler on a real archive, and what it reports."""

    def __init__(self, home, archive, config, clock):
        verdict = '{"overrules": false, "rule": "none", "reason": "fine"}'
        replies = [ScriptedReply(match="You review a persona", text=verdict), ScriptedReply(text="A short summary.")]
        self.model = Asked("script", replies, clock)
        self.overruns, self.events, self.log = [], [], CognitionLog(HomeDatabases(home), clock)
        self.assembler = Assembler(
            config=CognitionConfig(
                mtu=4096, reserve_tokens=64, history_turns=50, context_pages=4, proactive_context=False
            ),
            archive=archive,
            researcher=Researcher(archive, clock, config.research),
            registry=RegistryWatch(home),
            pool=OneModelPool(self.model),
            embedder=None,
            clock=clock,
            turn_store=TurnStore(archive, self.log, clock),
            report=self.overruns.append,
        )

    async def prepare(self, call, message="Hello.", turns=(), **more):
        told = {"dry_run": more.pop("dry_run", False), "judges": more.pop("judges", True)}
        request = ChatRequest(message=message, session_id="s", **more)
        names = Names("s", "turn_1", "cog_01KAAAAAAAAAAAAAAAAAAAAAAA")
        gathered = await self.assembler.gather(
            request, names, list(turns), call, lambda *event: self.events.append(event), **told
        )
        return await self.assembler.pack(gathered, request.role, names.full_id, None, call)


@pytest.fixture
async def desk(tmp_path, archive, config, clock):
    personas = tmp_path / "own" / "registry" / "personas"
    personas.mkdir(parents=True)
    (personas / "own.toml").write_text(OWN)
    desk = Desk(tmp_path / "own", archive, config, clock)
    yield desk
    desk.log._databases.close()


def long_session(turns):
    said = "The keeper counted {} grey boats before the storm reached the outer harbour wall. " * 12
    return [
        SessionTurn(
            session_id="s",
            turn_id=f"t{number}",
            messages=[
                TurnMessage(role="user", content=said.format(*[number] * 12)),
                TurnMessage(role="assistant", content=said.format(*[number + 100] * 12)),
            ],
        )
        for number in range(turns)
    ]


async def searches(desk, call, persona):
    desk.events.clear()
    prepared = await desk.prepare(call, QUESTION, persona=persona)
    assert prepared.gathered.found is not None
    return sum(name == "searching" for name, _ in desk.events), prepared.gathered.notes


@pytest.mark.parametrize(("persona", "may"), [("plain", False), ("mine", False), ("able", True), ("engineer", True)])
async def test_only_a_persona_with_the_grant_may_have_commands_proposed(desk, call, persona, may):
    assert (await desk.prepare(call, persona=persona)).gathered.may_execute is may


async def test_without_the_grant_a_look_back_is_one_search_and_a_note_says_so(
    desk, archive, make_packet, tmp_path, call
):
    (tmp_path / "a.xml").write_bytes(make_packet())
    await archive.ingest_files([tmp_path / "a.xml"], call)
    alone, notes = await searches(desk, call, "mine")
    several, none = await searches(desk, call, "able")
    assert alone == 1 < several
    assert "persona 'mine' has one search a turn" in notes[0]
    assert none == notes[1:] == []


async def test_a_dry_run_does_not_have_a_persona_judged_and_says_what_a_turn_would_ask(desk, call):
    dry = await desk.prepare(call, persona="mine", dry_run=True)
    assert desk.model.times == 0
    assert dry.gathered.notes == [
        "a turn would ask script whether the persona 'mine' works against identity; a dry run asks no model",
        "persona 'mine' was not judged: script is not asked in a dry run",
    ]
    assert rendering_of(dry).notes == dry.gathered.notes
    wet = await desk.prepare(call, persona="mine")
    assert (desk.model.times, wet.notes) == (1, [])
    assert wet.built.rendered == dry.built.rendered
    again = await desk.prepare(call, persona="mine", dry_run=True)
    assert (desk.model.times, again.notes) == (1, [])  # the verdict is known


async def test_a_model_that_cannot_tell_right_from_wrong_reads_no_persona(desk, call):
    prepared = await desk.prepare(call, persona="mine", judges=False)
    assert desk.model.times == 0
    assert len(prepared.gathered.notes) == 1
    assert "no model" in prepared.gathered.notes[0]


async def test_a_dry_run_asks_for_no_summary_and_leaves_the_turns_out_instead(desk, call):
    turns = long_session(20)
    dry = await desk.prepare(call, turns=turns, dry_run=True)
    assert desk.model.times == 0
    assert dry.gathered.notes == ["a turn would ask script for a summary; a dry run asks no model"]
    assert desk.overruns[-1].method == ""
    wet = await desk.prepare(call, turns=turns)
    assert desk.model.times == 1
    assert desk.overruns[-1].method == "lite"
    assert any("A short summary." in entry.text for entry in wet.built.packet.history)
    assert not any(entry.summary for entry in dry.built.packet.history)


async def kept(desk):
    """Everything in the cognition log, oldest first."""
    return [decode_sent(record) for record in reversed(await desk.log.newest("local", 10, "s"))]


async def test_a_summary_and_a_personas_review_are_asked_in_whole_packets_and_logged(desk, call):
    await desk.prepare(call, turns=long_session(20), persona="mine")
    assert desk.model.times == 2
    review, summary = await kept(desk)
    identity = desk.assembler.factory.registry.identity_text()
    plain = desk.assembler.factory.registry.persona_text("plain")
    for sent, key, role in ((review, "persona_review", "prime"), (summary, "compressor", "lite")):
        packet = sent.packet
        assert (packet.identity, packet.persona, packet.history) == (identity, plain, [])
        assert (packet.task_instruction_key, packet.role, packet.turn_id) == (key, role, "turn_1")
        assert packet.task_instruction == desk.assembler.factory.registry.task_instruction(key).text
        assert (sent.aside, sent.failure) == (True, "")
    assert summary.reply["text"] == "A short summary."
    assert [request.messages for request in desk.model.seen] == [messages_of(sent.packet) for sent in (review, summary)]


async def test_what_a_models_context_has_no_room_for_is_not_sent_for_a_summary(desk, call):
    desk.model.window = 4600
    prepared = await desk.prepare(call, turns=long_session(40))
    assert desk.model.times == 0
    assert prepared.built.manifest.total_tokens <= 4096
    assert "script has no room for it" in desk.overruns[-1].failures[1]


async def test_a_summary_that_failed_is_logged_with_why(desk, call):
    desk.model.window, desk.model._replies = 0, [ScriptedReply(error="unavailable")]
    await desk.prepare(call, turns=long_session(20))
    (sent,) = await kept(desk)
    assert (sent.reply, sent.packet.task_instruction_key) == ({}, "compressor")
    assert sent.failure
