"""A model's rates come from its replies; the time a stage gets follows them."""

from pathlib import Path

from gaiad.turn.stage_call import ModelRates, pace_of, read_rates, write_rates
from gaiad.wire.generation import Generated


def reply(prompt: int, prefill_ms: float, tokens: int, decode_ms: float) -> Generated:
    return Generated(
        text="x",
        reason="end",
        stop="",
        prompt_tokens=prompt,
        cached_tokens=0,
        tokens=tokens,
        seed=0,
        fingerprint="f",
        queue_ms=0.0,
        prefill_ms=prefill_ms,
        decode_ms=decode_ms,
    )


def test_nothing_is_said_of_a_model_that_has_not_replied() -> None:
    rates = ModelRates()
    assert (rates.first_word_s("m", 100), rates.writing_s("m", 100), rates.tokens_in("m", 10)) == (None, None, None)


def test_rates_follow_the_replies_and_short_ones_tell_nothing() -> None:
    rates = ModelRates()
    rates.observe("m", reply(100, 5000.0, 51, 10_000.0))
    assert (rates.first_word_s("m", 200), rates.writing_s("m", 50), rates.tokens_in("m", 10)) == (10.0, 10.0, 50)
    rates.observe("m", reply(3, 5000.0, 2, 10_000.0))
    assert rates.tokens_in("m", 10) == 50
    rates.observe("m", reply(100, 2500.0, 51, 5000.0))
    assert rates.tokens_in("m", 10) == 65


def test_rates_are_kept_for_the_next_start_and_a_damaged_file_costs_only_them(tmp_path: Path) -> None:
    path, rates = tmp_path / "rates.json", ModelRates()
    rates.observe("m", reply(100, 5000.0, 51, 10_000.0))
    write_rates(path, rates)
    assert read_rates(path).tokens_in("m", 10) == 50
    path.write_text('{"reading": {}, "writing": {"m": 0}}')
    assert read_rates(path).tokens_in("m", 10) is None


def test_a_reply_that_was_cut_off_tells_how_fast_it_was_written() -> None:
    rates = ModelRates()
    rates.observe_part("m", 51, 10_000.0)
    rates.observe_part("silent", 3, 0.0)
    assert (rates.tokens_in("m", 10), rates.tokens_in("silent", 10)) == (50, None)


def test_a_slow_model_gets_the_time_it_needs_within_the_deadline() -> None:
    full = ("plan", "refine", "act", "verify")
    plain = pace_of("plan", full, 0.0, 600.0)
    slow = pace_of("plan", full, 0.0, 600.0, first_word_s=100.0, writing_s=60.0)
    assert plain.last_by < 200
    assert slow.last_by == 320.0
    assert slow.first_by == 200.0
    assert pace_of("act", ("act",), 0.0, 120.0, first_word_s=500.0).last_by == 119.0


def test_a_slow_model_that_falls_silent_leaves_time_to_act_and_costs_no_more_for_writing_slowly() -> None:
    full = ("plan", "refine", "act", "verify")
    plain = pace_of("plan", full, 0.0, 601.0)
    assert pace_of("plan", full, 0.0, 601.0, first_word_s=300.0, writing_s=900.0).last_by == 480.0
    assert pace_of("plan", full, 0.0, 601.0, writing_s=100.0).first_by == plain.first_by


def test_a_model_that_nobody_can_stand_in_for_is_waited_for() -> None:
    alone = pace_of("act", ("act",), 0.0, 120.0, others=False)
    assert alone.first_by == alone.last_by == 119.0
