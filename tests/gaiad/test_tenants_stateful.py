"""Tenants of a real daemon, each with a token of its own, in any course of calls: nobody reads a byte of another's.

Every tenant's words hold a canary. Packets and sessions have the same few names in all tenants, and many common words;
ids that the daemon makes are known by who was told them first. Every route has a rule here: a new one without fails.
"""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from gaiad.bench.daemon_process import running_daemon
from gaiad.intake.routes import table
from tests.makers.tenants_house import PACKETS, RULES, SESSIONS, TENANTS, Follower, House

OWNERS = {f"{route.method} {route.path}" for route in table() if route.owner}
PATHS = {f"{route.method} {route.path}" for route in table()} - OWNERS


def test_every_route_has_a_rule() -> None:
    assert set(RULES) == PATHS


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home = tmp_path_factory.mktemp("tenants") / "h"
    home.mkdir(mode=0o700)
    lines = ["the-owners-own-token", *(f"token-of-{name}-0000 {name}" for name in TENANTS)]
    (home / "token").write_text("\n".join(lines))
    (home / "token").chmod(0o600)
    (home / "config.toml").write_text('[embedder]\nkind = "none"\n[memory]\ngam_enabled = true\n')
    with running_daemon(home=home) as daemon:
        made = House(str(daemon.status()["url"]))
        followers = [Follower(made, name) for name in TENANTS]
        for number, name in enumerate(TENANTS):
            made.keep(name, PACKETS[number], "First.")
            made.hand_over(name, SESSIONS[number], "First")
            made.say(name, SESSIONS[number], "First")
            made.run(name, by_itself=False)
            made.report(name)
        yield made
    for follower in followers:
        follower.look_through()


@pytest.mark.parametrize("route", sorted(PATHS))
def test_another_tenants_ids_are_answered_as_unknown_ones(house: House, route: str) -> None:
    known = RULES[route]
    tenant, other = house.next_pair(known.of)
    others, own = house.foreign(tenant, known.of), house.ids(tenant, known.of) or [""]
    if known.of not in ("", "approval"):
        assert others
        house.reach_for(tenant, route, others[-1])
    if "/forget" not in route:
        house.read_own(tenant, route, own[-1])
    if known.names:
        house.claim(tenant, route, other, (house.ids(other, known.of) or [""])[-1])


def test_what_is_the_owners_is_refused_to_every_tenant(house: House) -> None:
    for route in sorted(OWNERS):
        method, path = route.split()
        for tenant in TENANTS:
            status, answer = house.send(tenant, method, path, "{}" if method == "POST" else None)
            assert (status, json.loads(answer)["code"]) == (403, "forbidden"), route


def test_a_foreign_word_of_deletion_deletes_nothing(house: House) -> None:
    for tenant, other in (("anna", "bert"), ("bert", "cleo")):
        (run, *_), (packet, *_) = house.ids(other, "run"), house.ids(other, "packet")
        assert house.ask(other, "POST /feedback", packet)[0] == 200
        before = house.ask(other, "GET /research/{research_id}", run), house.ask(other, "POST /feedback/list")
        house.ask(tenant, "POST /research/{research_id}/forget", run)
        house.ask(tenant, "POST /research/{research_id}/cancel", run)
        house.ask(tenant, "POST /feedback/reset", packet)
        house.ask(tenant, "POST /feedback/reset", "")
        assert (house.ask(other, "GET /research/{research_id}", run), house.ask(other, "POST /feedback/list")) == before
        assert before[0][0] == 200
        assert house.ask(other, "POST /research/{research_id}/forget", run)[0] == 200
        assert house.ask(other, "GET /research/{research_id}", run)[0] == 404
        house.known[other]["run"].remove(run)
        house.run(other, by_itself=False)


def test_any_course_of_calls_keeps_tenants_apart(house: House) -> None:
    tenants, words = st.sampled_from(TENANTS), st.sampled_from(("Morning", "Noon", "Dusk", "Night"))
    routes = st.sampled_from(sorted(PATHS - {"GET /events"}))

    class Tenants(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.house = house

        @rule(tenant=tenants, packet_id=st.sampled_from(PACKETS), said=words)
        def keeps(self, tenant: str, packet_id: str, said: str) -> None:
            self.house.keep(tenant, packet_id, said)

        @rule(tenant=tenants, session_id=st.sampled_from(SESSIONS), said=words)
        def says(self, tenant: str, session_id: str, said: str) -> None:
            self.house.say(tenant, session_id, said)

        @rule(tenant=tenants, session_id=st.sampled_from(SESSIONS), said=words)
        def hands_over(self, tenant: str, session_id: str, said: str) -> None:
            self.house.hand_over(tenant, session_id, said)

        @rule(tenant=tenants, by_itself=st.booleans())
        def asks(self, tenant: str, by_itself: bool) -> None:
            self.house.run(tenant, by_itself=by_itself)

        @rule(tenant=tenants, route=routes, data=st.data())
        def reads(self, tenant: str, route: str, data: st.DataObject) -> None:
            own = self.house.ids(tenant, RULES[route].of) or [""]
            self.house.read_own(tenant, route, own[data.draw(st.integers(0, 10**6)) % len(own)])

        @rule(tenant=tenants, route=routes, data=st.data())
        def reaches(self, tenant: str, route: str, data: st.DataObject) -> None:
            of = RULES[route].of
            others = self.house.foreign(tenant, of) if of and of != "approval" else []
            if others:
                self.house.reach_for(tenant, route, others[data.draw(st.integers(0, 10**6)) % len(others)])

        @rule(tenant=tenants, other=tenants, route=routes)
        def claims(self, tenant: str, other: str, route: str) -> None:
            if tenant != other and RULES[route].names:
                own = self.house.ids(other, RULES[route].of) or [""]
                self.house.claim(tenant, route, other, own[-1])

    run_state_machine_as_test(
        Tenants,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            phases=[Phase.generate],  # what the daemon has been told stays: a shorter course says nothing
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
