"""Settings of the council that make no sense are refused by key and remedy, at the start and on reload."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.config import load_config
from gaiad.base.errors import ConfigError, Unavailable
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.turn.services import rulebook
from gaiad.wire.chat import ChatRequest
from gaiad.wire.generation import Sampling
from tests.makers.scripted_home import scripted_settings

SCRIPT = """
[[reply]]
match = "think step by step"
text = 'PLAN: {"steps": ["Look up the tram"]}'
[[reply]]
match = "errors, gaps and risks"
text = 'PLAN: {"confidence": 0.8, "steps": ["Look up the tram"]}'
[[reply]]
match = "the plan, step by step"
text = 'VERIFY: {"outcome": "success", "summary": "it says when"}'
[[reply]]
match = "Develop the thought for later"
text = '{"proposal": "Ask which tram was meant.", "why": "Two are named."}'
[[reply]]
match = "Vote yes, no or abstain"
text = '{"vote": "yes", "confidence": 0.8, "reason": "sound"}'
delay_ms = 5000
[[reply]]
text = "RESPONSE: The tram goes at nine.\\nTHOUGHT_SEED: Ask which tram is meant."
"""
WRONG = [
    ('stages={guest=["act"]}', "council.stages: there is no role 'guest'; roles are prime, lite, codemind"),
    ('stages={prime=["dance"]}', "council.stages.prime: 'dance' is not a stage; stages are plan, refine, observe, act"),
    ('stages={prime=["act"]}', "the stage 'refine' belongs to no role; give it to one role"),
    ('stages={lite=["plan","observe","act"]}', "the stage 'act' belongs to prime and lite; give it to one role"),
    ('stages={lite=["plan","plan","observe"]}', "name each stage once"),
    ("sampling={guest={top_p=0.5}}", "council.sampling: there is no role 'guest'"),
    ("sampling={prime={topp=0.5}}", "council.sampling.prime: there is no 'topp'; it may set temperature, top_k"),
    ("sampling={prime={temperature=-1.0}}", "council.sampling.prime: temperature is -1; give a number from 0 to 10"),
    ("sampling={prime={top_p=nan}}", "top_p is nan; give a number from 0 to 1"),
    ("sampling={prime={top_k=1.5}}", "top_k is 1.5; give a whole number"),
    ("sampling={prime={top_k=1e400}}", "top_k is inf; give a number from 0 to 2147483647"),
    ("deadline_s=0.5", "council.deadline_s = 0.5: give a number from 1 to 86400"),
    ("full_deadline_s=0", "council.full_deadline_s = 0: give a number from 1"),
    ("vote_s=inf", "council.vote_s = inf: give a number from 1 to 86400"),
    ("keep_heartbeats_days=0", "council.keep_heartbeats_days = 0: give a number from 1 to 36500"),
    ("keep_heartbeats_days=100000000", "council.keep_heartbeats_days = 100000000: give"),
]


@pytest.mark.parametrize(("setting", "expected"), WRONG)
def test_what_makes_no_sense_is_named_with_its_remedy(setting: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        rulebook(load_config(environment={}, assignments=[f"council.{setting}"]).council)


@pytest.mark.parametrize("value", ["inf", "nan", "0", "1e9"])
def test_the_initiative_looks_at_sensible_times(value: str) -> None:
    with pytest.raises(ConfigError, match=r"initiative\.every_s = "):
        load_config(environment={}, assignments=[f"initiative.every_s={value}"])


def test_no_time_is_without_end() -> None:
    with pytest.raises(ConfigError, match=r"search\.weight_name = inf: must be a finite number"):
        load_config(environment={}, assignments=["search.weight_name=inf"])


def test_what_makes_sense_is_taken() -> None:
    settings = ['stages={prime=["act"],lite=["plan","refine","observe"]}', "sampling={lite={top_k=7,temperature=0}}"]
    rules = rulebook(load_config(environment={}, assignments=[f"council.{one}" for one in settings]).council)
    assert rules.roles.roles["lite"].stages == ("plan", "refine", "observe")
    recommended = Sampling(top_p=0.5, top_k=40, temperature=0.9)
    sampling = rules.roles.roles["lite"].sampled(recommended)
    assert (sampling.top_k, sampling.temperature, type(sampling.top_k)) == (7, 0.0, int)
    assert sampling.top_p == recommended.top_p
    assert rules.roles.roles["prime"].sampled(recommended) == recommended


def test_a_start_with_such_a_setting_ends_with_the_words(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match=r"council\.stages: there is no role 'guest'; roles are prime"),
        running_daemon("embedder.kind=none", 'council.stages={guest=["act"]}', home=tmp_path / "h"),
    ):
        pass


# ---------------------------------------------------------------------------------------------------- on a running one


class Living:
    """A daemon whose settings can be written anew."""

    def __init__(self, home: Path, daemon: BenchDaemon) -> None:
        self.home, self.daemon, self.client = home, daemon, daemon.client

    def reload(self, *sections: str) -> Any:
        text = scripted_settings(self.home / "script.toml") + "\n".join(sections)
        (self.home / "config.toml").write_text(text)
        return self.client.post("/config/reload", {})

    def council(self) -> Any:
        return self.client.post("/council/status", {})

    def stages_of(self, role: str) -> list[str]:
        return next(row["stages"] for row in self.council()["roles"] if row["role"] == role)

    def turn(self, depth: str = "") -> Any:
        request = ChatRequest(message="When does the tram go?", session_id="s", depth=depth)  # type: ignore[arg-type]
        answer = list(self.client.chat_events(request))[-1].data
        record = self.client.council.turn(answer["turn_id"], "local")
        first = next(row for row in record.stages if row.stage == "act")
        packet = self.client.post("/cognition/show", {"packet": first.packet_id})
        return answer, record, packet


@pytest.fixture
def living(tmp_path: Path) -> Iterator[Living]:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "script.toml").write_text(SCRIPT)
    (home / "config.toml").write_text(scripted_settings(home / "script.toml"))
    with running_daemon("embedder.kind=none", home=home) as daemon:
        yield Living(home, daemon)


def test_settings_of_the_council_take_force_and_faulty_ones_do_not(living: Living) -> None:
    assert living.turn()[0]["depth"] == "fast", "auto, for a short question"
    report = living.reload(
        "[council]",
        'depth = "full"',
        "full_deadline_s = 90",
        "vote_s = 7",
        'stages = {prime = ["refine"], lite = ["plan", "observe", "act"]}',
        "sampling = {lite = {temperature = 0.25, top_k = 9}}",
        "[initiative]",
        "enabled = false",
        "daily_tokens = 5",
    )
    assert report["restart_needed"] == []
    assert {"council.depth", "council.stages", "council.sampling", "council.vote_s"} <= set(report["changed"])
    check(living)

    wrong = (('stages = {prime = ["act"]}', "belongs to no role"), ("vote_s = 0.2", "council.vote_s = 0.2"))
    for line, words in wrong:
        with pytest.raises(ConfigError, match=words):
            living.reload("[council]", 'depth = "fast"', line, "[initiative]", "enabled = true")
        check(living)

    living.reload()
    assert living.council()["initiative"]["enabled"]
    assert living.turn()[0]["depth"] == "fast"
    assert living.stages_of("prime") == ["refine", "act"]


def check(living: Living) -> None:
    """The good settings hold."""
    status = living.council()
    assert (status["depth"], status["initiative"]["enabled"], status["initiative"]["daily_tokens"]) == (
        "full",
        False,
        5,
    )
    assert living.stages_of("lite") == ["plan", "observe", "act"]
    _, record, packet = living.turn()
    assert record.depth == "full"
    assert {row.role for row in record.stages if row.stage == "act"} == {"lite"}
    sampling = packet["request"]["sampling"]
    assert (sampling["temperature"], sampling["top_k"]) == (0.25, 9)
    assert living.client.get("/config")["council"]["vote_s"] == 7.0


def test_another_time_for_votes_holds_for_the_initiatives_too(tmp_path: Path) -> None:
    """Its voters take five seconds each, and the round is open for one."""
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "script.toml").write_text(SCRIPT)
    (home / "config.toml").write_text(scripted_settings(home / "script.toml"))
    quick = "initiative.every_s=0.5"
    with running_daemon("embedder.kind=none", quick, home=home) as daemon:
        living = Living(home, daemon)
        assert living.reload("[council]", "vote_s = 1")["changed"] == ["council.vote_s"]
        living.turn()
        deadline = time.monotonic() + 60
        while not (seeds := daemon.client.post("/council/seeds", {"state": "failed"})["seeds"]):
            assert time.monotonic() < deadline, living.council()["initiative"]
            time.sleep(0.1)
    assert [seed["text"] for seed in seeds] == ["Ask which tram is meant."]
