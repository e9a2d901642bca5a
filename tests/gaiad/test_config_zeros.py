"""Settings that would hang or spin at zero are refused by name."""

import pytest

from gaiad.base.config import load_config
from gaiad.base.errors import ConfigError


@pytest.mark.parametrize("key", ["parallel", "batch_tokens", "start_timeout_s", "remote_timeout_s", "heartbeat_s"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_setting_that_cannot_work_at_zero_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"models\.{key} = .*must (be above 0|not be negative)"):
        load_config(environment={}, assignments=[f"models.{key}={value}"])


def test_a_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be above 0"):
        load_config(environment={}, assignments=["models.heartbeat_s=nan"])


def test_no_line_before_a_model_is_a_choice() -> None:
    assert load_config(environment={}, assignments=["models.queue=0"]).models.queue == 0


@pytest.mark.parametrize(
    ("key", "most"), [("max_iterations", 5), ("max_pages", 32), ("max_sources", 32), ("expand_days", 3650)]
)
def test_the_caps_of_research_hold(key: str, most: int) -> None:
    least = 0 if key == "expand_days" else 1
    for value in (least, most):
        assert getattr(load_config(environment={}, assignments=[f"research.{key}={value}"]).research, key) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError, match=rf"research\.{key} = {value}: (must not be negative|give a number)"):
            load_config(environment={}, assignments=[f"research.{key}={value}"])


@pytest.mark.parametrize("days", [-1, 36_501])
def test_runs_are_kept_for_some_days_or_for_good(days: int) -> None:
    with pytest.raises(ConfigError, match=rf"research\.keep_runs_days = {days}: (must not be negative|give a number)"):
        load_config(environment={}, assignments=[f"research.keep_runs_days={days}"])
    assert load_config(environment={}, assignments=["research.keep_runs_days=0"]).research.keep_runs_days == 0
