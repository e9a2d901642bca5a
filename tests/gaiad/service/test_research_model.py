"""A daemon whose role prime writes: `ask` is planned, judged and written by it, within the settings of the moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import gaiad
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.wire.chat import ChatRequest
from gaiad.wire.ingest import IngestRequest
from gaiad.wire.research import ResearchRun
from gaiad.wire.schemas import ResearchRequest, ResearchResult
from prompts.identity import identity_text, shipped_identity
from tests.makers.scripted_home import scripted_home

SCRIPT = """
[[reply]]
match = 'You plan searches'
text = '{"actions": [{"tool": "bm25", "query": "spare membrane", "pageIds": [], "k": 4, "note": "the other part"}]}'

[[reply]]
match = 'research evaluation agent'
text = '{"is_sufficient": true, "confidence": 0.9, "missing_aspects": [], "refinement_suggestions": []}'

[[reply]]
text = "RESPONSE: I do not know."
"""
PACKET = Path(gaiad.__file__).parent / "samples" / "tp-20250722-073000.xml"
WRITES = """
[[reply]]
match = 'You are synthesizing(.|\\n)*\\(s{0}\\) The float switch in the tank'
text = '{{"sentences": [{{"text": "It is wired in series with both valves.", "sources": ["s{0}"]}}]}}'
chunk_characters = 400
"""
QUESTION = "Where is the float switch wired?"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = scripted_home(
        tmp_path_factory.mktemp("thinking"),
        "".join(WRITES.format(number) for number in range(1, 60)) + SCRIPT,
        roles=["prime"],
    )
    with running_daemon(home=home) as running:
        running.client.ingest(IngestRequest(paths=[str(PACKET)]))
        yield running


def ask(daemon: BenchDaemon) -> ResearchResult:
    return daemon.client.research(ResearchRequest(query=QUESTION))


def limits(run: ResearchRun) -> list[str]:
    return run.payload.synthesis.limitations if run.payload.synthesis else []


def test_an_answer_is_the_models_words_on_verified_quotes(daemon: BenchDaemon) -> None:
    result = ask(daemon)
    (citation,) = result.citations
    assert (result.status, result.engine) == ("SUCCESS", "script")
    assert result.answer == f"It is wired in series with both valves. [Packet: {citation.packet_id}]"
    assert "wired in series with the supply of both valves" in citation.quote
    kept = daemon.client.runs.show(result.research_id, "local")
    assert kept.account.model_calls == 3
    assert kept.account.prompt_tokens > 0
    assert "script wrote the sentences; rules held each against the quotes it names." in limits(kept)


def test_every_call_of_a_run_is_kept_with_its_packet_and_gives_its_prompt_again(daemon: BenchDaemon) -> None:
    before = {record.packet["full_id"] for record in daemon.client.cognition_packets("local", 100)}
    (citation,) = ask(daemon).citations
    kept = [one for one in daemon.client.cognition_packets("local", 100) if one.packet["full_id"] not in before]
    assert len(kept) == 3
    assert {(one.packet["task_instruction_key"], one.packet["role"], one.aside) for one in kept} == {
        ("ask", "prime", True)
    }
    identity = identity_text(shipped_identity())
    assert [one.packet["identity"] for one in kept] == [identity] * 3
    assert not [one for one in kept if identity in one.packet["task_instruction"] or not one.packet["task_instruction"]]
    assert citation.packet_id in kept[0].packet["user_prompt"]
    assert "wired in series" in kept[0].reply["text"]
    for one in kept:
        assert daemon.client.replay_packet(one.packet["full_id"], "local", generate=False).same_prompt


def test_without_the_setting_the_rules_answer(daemon: BenchDaemon) -> None:
    settings = daemon.home / "config.toml"
    before = settings.read_text()
    settings.write_text(before + '[research]\nmodel = ""\n')
    daemon.client.reload_config()
    assert ask(daemon).engine == "extractive"
    settings.write_text(before + "[research]\nmodel_calls = 1\n")
    daemon.client.reload_config()
    one = ask(daemon)
    assert one.engine == "extractive"
    assert "reflection and synthesis by rules: 1 calls are used up (research.model_calls)" in one.degraded
    settings.write_text(before)
    daemon.client.reload_config()
    assert ask(daemon).engine == "script"


def test_chat_keeps_to_its_own_way_of_looking_things_up(daemon: BenchDaemon) -> None:
    [*daemon.client.chat_events(ChatRequest(message=QUESTION))]
    newest = daemon.client.runs.newest("local", 1)[0]
    kept = daemon.client.runs.show(newest.research_id, "local")
    assert kept.account.model_calls == 0
