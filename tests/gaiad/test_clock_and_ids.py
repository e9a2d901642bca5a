"""Injected time and sortable ids."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.clock import FrozenClock, SystemClock, day_of, from_epoch_ms, load_zone, to_epoch_ms, to_iso
from gaiad.base.errors import ConfigError
from gaiad.base.ids import IdMaker, short


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_milliseconds_come_back_exactly(moment: datetime) -> None:
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert from_epoch_ms(to_epoch_ms(moment)) == whole


def test_a_day_is_that_of_the_zone() -> None:
    east = timezone(timedelta(hours=1))
    assert day_of("2025-11-30T23:30:00Z", UTC) == day_of("2025-11-30T23:30:00", UTC) == "2025-11-30"
    assert day_of("2025-11-30T23:30:00Z", east) == "2025-12-01"
    assert day_of("", east) == ""


def test_iso_is_utc_and_short() -> None:
    east = timezone(timedelta(hours=-6))
    assert to_iso(datetime(2024, 11, 29, 9, 55, 30, tzinfo=east)) == "2024-11-29T15:55:30Z"
    assert to_iso(datetime(2024, 11, 29, 9, 0, 0, 5000, tzinfo=UTC)) == "2024-11-29T09:00:00.005Z"


def test_a_clock_refuses_a_time_without_a_zone() -> None:
    with pytest.raises(ValueError, match="zone-aware"):
        FrozenClock(datetime(2025, 1, 1))


def test_an_unknown_zone_is_named_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"Europe/Nowhere.*IANA"):
        load_zone("Europe/Nowhere")


def test_the_system_clock_knows_its_zone() -> None:
    clock = SystemClock("Europe/Berlin")
    assert str(clock.zone) == "Europe/Berlin"
    assert clock.now().tzinfo is UTC


def test_ids_rise_within_one_millisecond_and_when_the_clock_steps_back() -> None:
    clock = FrozenClock(datetime(2025, 11, 30, tzinfo=UTC))
    ids = IdMaker(clock)
    made = [ids.make("job") for _ in range(1000)]
    clock.advance(-3600)
    made += [ids.make("job") for _ in range(10)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(len(one) == 30 and one.startswith("job_") for one in made)


def test_ids_sort_by_time_across_makers() -> None:
    early = IdMaker(FrozenClock(datetime(2025, 11, 30, tzinfo=UTC))).make()
    late = IdMaker(FrozenClock(datetime(2025, 11, 30, 0, 0, 1, tzinfo=UTC))).make()
    assert early < late


def test_short_is_eight_hexadecimal_digits() -> None:
    assert len(short("job_X")) == 8
    assert int(short("job_X"), 16) >= 0
