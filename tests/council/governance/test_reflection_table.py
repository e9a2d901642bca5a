"""What is recorded of results and of who was there, on a real file, over days of an injected clock."""

from datetime import UTC, datetime

import pytest

from council.governance.rules import governance_table
from council.governance.tables import ReflectionTable, read_stability
from gaiad.base.clock import FrozenClock, to_epoch_ms
from gaiad.base.errors import BadInput, Conflict
from gaiad.store.home_databases import HomeDatabases

RULES = governance_table().stability


@pytest.fixture
def clock():
    return FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))


@pytest.fixture
def file(tmp_path):
    opened = HomeDatabases(tmp_path).state
    yield opened
    opened.close()


@pytest.fixture
def kept(file, clock):
    return ReflectionTable(file, clock, RULES, initiative_every_s=900.0)


async def live(kept, clock, hours: float, *, step_s: float = 80.0, prime: bool = True) -> None:
    """Beats, runs of the initiative loop, and a good Verify every fifteen minutes."""
    at = 0.0
    while at < hours * 3600:
        if prime:
            await kept.beat("prime")
        await kept.beat("lite")
        if at % 900 < step_s:
            await kept.initiative_looked("")
            await kept.record("verify", "success", None)
        clock.advance(step_s)
        at += step_s


async def unmet(kept) -> list[str]:
    return [each.name for each in (await kept.report()).criteria if not each.met]


async def test_a_day_of_life_is_self_aware_and_a_longer_silence_ends_it(kept, clock):
    await live(kept, clock, 24.1)
    assert await unmet(kept) == []
    clock.advance(100)
    await live(kept, clock, 0.1)
    report = await kept.report()
    assert [each.name for each in report.criteria if not each.met] == ["prime", "lite"]
    assert report.criteria[2].why.startswith("prime was online without a break for only 6 min")


async def test_a_failure_of_the_initiative_loop_begins_its_day_anew(kept, clock):
    await live(kept, clock, 24.1)
    await kept.initiative_looked("no model wrote")
    assert await unmet(kept) == ["initiative"]
    await live(kept, clock, 0.5)
    report = await kept.report()
    assert [each.why for each in report.criteria if not each.met] == [
        "the initiative loop ran without a break for only 30 min, after: no model wrote"
    ]


async def test_a_loop_that_stands_still_for_more_than_two_intervals_is_not_active(kept, clock):
    await live(kept, clock, 24.1)
    for _ in range(30):
        await kept.beat("prime")
        await kept.beat("lite")
        clock.advance(80)
    assert await unmet(kept) == ["initiative"]


async def test_other_roles_and_other_stages_are_no_criterion(kept):
    await kept.beat("codemind")
    assert (await kept.report()).criteria[2].why == "no sign of it is recorded"
    with pytest.raises(BadInput, match="stage 'plan' is not a self-reflection"):
        await kept.record("plan", "ok", None)


async def test_old_rows_are_deleted(kept, clock, file):
    await kept.record("refine", "ok", 0.8)
    await kept.beat("prime")
    clock.advance(RULES.keep_days * 86_400 + 1)
    await kept.record("verify", "success", None)
    await kept.beat("prime")
    rows = file.read(lambda c: [c.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in
                                ("reflections", "spans")])  # fmt: skip
    assert rows == [1, 1]


async def test_it_is_read_beside_a_daemon_and_as_it_was_last_seen(kept, clock, tmp_path):
    await live(kept, clock, 24.1)
    now_ms = to_epoch_ms(clock.now())
    assert read_stability(tmp_path, now_ms, RULES) == await kept.report()
    much_later = now_ms + 3 * 86_400_000
    assert not read_stability(tmp_path, much_later, RULES).self_aware
    assert read_stability(tmp_path, much_later, RULES, last_seen=True).self_aware


def test_a_home_without_a_record_has_no_score(tmp_path):
    report = read_stability(tmp_path, 0, RULES)
    assert (report.score, report.sample, report.self_aware) == (0.0, 0, False)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "state.db").write_bytes(b"words" * 100)
    with pytest.raises(Conflict, match=r"state\.db"):
        read_stability(tmp_path, 0, RULES)
