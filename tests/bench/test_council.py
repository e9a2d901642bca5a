"""The measure of the council on small models; on the model it is made for it takes minutes and is run by hand."""

import re

import msgspec
import pytest

from council.stages import stage_form
from gaiad.base.errors import BadInput, Unavailable
from gaiad.models.gguf.tiny_gguf import vocabulary
from gaiad.wire.council import StageRecord, TurnRecord
from gaiad.wire.generation import Generated, GenerateRequest
from tests.bench.council import STAGES, Cold, _scripted, besides, full_turn_rows, in_order, overhead_rows, turn_rows
from tests.bench.made_session import spelling_shape, write_chat_llama
from tests.bench.measured_pool import Asked, narrowed, stage_of
from tests.makers.llama_files import HALF_BILLION, TINY_LLAMA


def row(stage, ms=100.0, prefill=60.0, decode=30.0, cached=0, verdict="ok"):
    return StageRecord(
        stage=stage,
        role="prime",
        packet_id="cog_1",
        tokens=64,
        cached_tokens=cached,
        ms=ms,
        verdict=verdict,
        prompt_tokens=2000,
        prefill_ms=prefill,
        decode_ms=decode,
    )


def turn(*stages):
    return TurnRecord(turn_id="t", session_id="s", depth="full", stages=list(stages), votes=[], status="SUCCESS")


def reply(tokens=64):
    return Generated(
        text="x",
        reason="length",
        stop="",
        prompt_tokens=2000,
        cached_tokens=0,
        tokens=tokens,
        seed=1,
        fingerprint="f",
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )


def asked(stage, tokens=64):
    found = None if tokens is None else reply(tokens)
    return Asked(stage=stage, request=GenerateRequest(max_tokens=64), reply=found, seconds=1.0)


def request(stage, max_tokens=320):
    form = stage_form(stage, max_tokens)
    return GenerateRequest(max_tokens=max_tokens, contract=form.contract, schema=form.schema)


async def test_a_full_turn_on_a_tiny_worker_is_put_beside_its_cold_calls(tmp_path):
    model = write_chat_llama(tmp_path / "chat.gguf")
    rows = await full_turn_rows(tmp_path / "home", model, 6, 48, "models.flash_attention=off", "models.threads=1")
    assert all(one.value >= 0 for one in rows)
    ratios = [one for one in rows if one.unit == "ratio"]
    assert [one.aim for one in ratios] == ["<= 0.4", "<= 0.4"]
    read = {one.what.split(",")[0].strip(): one for one in rows if "read before" in one.what}
    assert [stage for stage in STAGES if stage != "observe"] == [stage for stage in read if stage != "observe"]
    assert read["plan"].value <= 1, "the worker had forgotten the turn before"
    for stage in ("refine", "act", "verify"):
        of = int(re.findall(r"\d+", read[stage].unit)[0])
        assert read[stage].value >= 0.7 * of, f"{stage} goes on where the stage before stopped reading"
    assert "48 + 48 + 48 + 48 written" in rows[0].what


def test_stages_over_the_socket_are_measured_besides_their_model(tmp_path):
    rows = overhead_rows("a script", _scripted(tmp_path), turns=2)
    assert rows[1].what.strip() == "8 stages of 2 turns"
    assert 0 < rows[0].value <= rows[1].value
    assert rows[1].aim == "<= 15"


def test_a_look_runs_beside_act_and_is_no_part_of_the_sum():
    found = besides(turn(row("plan"), row("observe", ms=5000.0), row("act", ms=120.0)), wall_ms=250.0)
    assert found.stages == [10.0, 30.0]
    assert found.outside == 30.0


def test_one_look_that_ended_counts_and_a_turn_of_another_course_is_no_measure():
    whole = turn(*map(row, ("plan", "refine", "observe", "act", "verify")))
    calls = [
        asked("plan"),
        asked("refine"),
        asked("observe", None),
        asked("observe", 44),
        asked("act"),
        asked("verify"),
    ]
    found = in_order(whole, calls)
    assert [one.stage for one in found] == list(STAGES)
    assert found[2].reply is not None
    assert in_order(whole, [one for one in calls if one.stage != "observe" or one.reply is None])[2].reply is None
    with pytest.raises(Unavailable, match="plan missing, plan ok"):
        in_order(turn(row("plan", verdict="missing"), *whole.stages), [asked("plan"), *calls])
    assert len(in_order(whole, [one for one in calls if one.stage != "observe"])) == 4, "no look came about"
    with pytest.raises(Unavailable, match="usual course"):
        in_order(whole, calls[1:])


def test_a_turn_stands_beside_the_very_calls_and_beside_five_of_the_whole_packet():
    whole = turn(*(row(stage, cached=number) for number, stage in enumerate(STAGES)))
    cold = [Cold(asked(stage), reply(), 1.0 if stage == "observe" else 10.0) for stage in STAGES]
    rows = turn_rows(whole, 20.5, cold)
    assert [one.value for one in rows[:4]] == [20.5, 41.0, 0.5, pytest.approx(0.41)]
    assert [one.value for one in rows[4::3]] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("stage", ["plan", "refine", "act", "verify", "observe"])
def test_a_narrowed_request_is_still_of_its_stage_with_one_choice_and_a_seed(stage):
    made = narrowed(request(stage), 64)
    assert stage_of(made) == stage
    assert made.max_tokens == 64
    assert made.seed is not None
    schema = made.schema or (made.contract and made.contract.blocks[-1].schema)
    assert (schema is None) == (stage == "act")
    choice = {"refine": ("confidence", [0.8]), "verify": ("outcome", ["success"]), "observe": ("interrupt", [False])}
    if stage in choice:
        name, only = choice[stage]
        assert schema["properties"][name] == {"enum": only}


def test_one_token_that_is_only_read_ahead_is_no_stage():
    assert stage_of(narrowed(GenerateRequest(max_tokens=1, seed=7), 64)) == ""
    assert narrowed(GenerateRequest(max_tokens=1, seed=7), 64).seed == 7


def test_the_spelled_vocabulary_is_as_large_and_every_beginning_of_a_word_is_in_it():
    shape = spelling_shape(HALF_BILLION, ["harbour", "Answer"])
    texts = vocabulary(shape)[0]
    assert len(texts) == len(vocabulary(HALF_BILLION)[0]) == 151_936
    words = set(shape.words)
    assert shape.filler == 0
    assert {"harbour", "Answer", "a", "zz"} <= words
    assert all(word[:-1] in words for word in words if len(word) > 1)


def test_words_that_do_not_fit_are_refused():
    with pytest.raises(BadInput, match="do not fit in 3"):
        spelling_shape(msgspec.structs.replace(TINY_LLAMA, filler=3), ["boats"])
