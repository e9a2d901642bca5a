"""Assembly on words as tokens: what is whole, what gives way, what is said about it."""

import hashlib

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, TokenBudgetError
from gaiad.models.tokens.word_tokenizer import ByteEstimate, WordTokenizer, count_words
from prompts.budget import Built
from prompts.builder import build
from prompts.compress import BudgetOverrun, Compressor
from prompts.counting import PromptCounter
from prompts.messages import messages_of, notice_segments
from prompts.packet import SUMMARY_TAG, FieldReport, WorkItem
from tests.makers.cognition import build_request, pages, session
from tests.makers.word_embedder import WordEmbedder


@pytest.fixture
def words(clock: FrozenClock) -> WordTokenizer:
    return WordTokenizer(clock)


@pytest.fixture
def heard() -> list[BudgetOverrun]:
    return []


@pytest.fixture
def compressor(clock: FrozenClock, heard: list[BudgetOverrun]) -> Compressor:
    return Compressor(WordEmbedder(), None, None, clock, heard.append)


def rows(built: Built) -> dict[str, FieldReport]:
    return {row.field: row for row in built.manifest.fields}


def prompt(built: Built) -> str:
    return "".join(part.text for part in built.rendered)


async def test_what_fits_goes_in_whole_and_the_table_adds_up(words, call) -> None:
    request = build_request(history=session(3), context=pages(2), reserve_tokens=512)
    built = await build(request, words, None, call)
    manifest = built.manifest
    assert {row.method for row in manifest.fields} == {"whole"}
    assert sum(row.tokens for row in manifest.fields) == manifest.total_tokens == count_words(prompt(built))
    assert (manifest.packet_id, manifest.mtu, manifest.model, manifest.tokenizer, manifest.reserve_tokens) == (
        "cog_FULLID",
        4096,
        "model-fingerprint",
        "words:1",
        512,
    )
    assert manifest.dropped == []
    assert manifest.prompt_sha256 == hashlib.sha256(prompt(built).encode()).hexdigest()
    assert built.packet.packet_id == hashlib.sha256(b"cog_FULLID").hexdigest()[:8]
    assert built.messages == messages_of(built.packet)


async def test_the_meta_header_and_the_time_never_reach_the_model(words, call) -> None:
    request = build_request(
        history=session(2),
        context=pages(1),
        parent_id="cog_PARENT",
        confidence=0.8731,
        risk_level="high",
        retry_count=7919,
    )
    built = await build(request, words, None, call)
    header = msgspec.to_builtins(built.packet)
    for name in (
        "packet_id",
        "full_id",
        "parent_id",
        "turn_id",
        "timestamp",
        "confidence",
        "risk_level",
        "retry_count",
    ):
        assert header[name], name
        assert str(header[name]) not in prompt(built), name
    for name in ("t-now", "page0", "initial_planning"):
        assert name not in prompt(built)


async def test_a_stored_packet_gives_the_same_prompt_again(words, call) -> None:
    built = await build(build_request(history=session(300), context=pages(40)), words, None, call)
    stored = msgspec.json.decode(msgspec.json.encode(built.packet), type=type(built.packet))
    again = "".join(part.text for part in await words.render(messages_of(stored), call))
    assert hashlib.sha256(again.encode()).hexdigest() == built.manifest.prompt_sha256


async def test_history_and_context_give_way_and_the_manifest_names_what_left(words, call) -> None:
    request = build_request(mtu=1000, history=session(60), context=pages(20))
    built = await build(request, words, None, call)
    table = rows(built)
    room = 1000 - sum(table[name].tokens for name in ("identity", "persona", "role", "task_instruction", "template"))
    assert table["history"].limit + table["context"].limit <= room * 60 // 100
    assert table["context"].limit >= (room * 60 // 100) / 3
    assert table["history"].method == table["context"].method == "trimmed"
    notice = count_words("".join(segment.text for segment in notice_segments()))
    assert notice > 0
    assert (table["history"].original_tokens, table["context"].original_tokens) == (60 * 32, notice + 20 * 61)
    stayed = {entry.turn_id for entry in built.packet.history} | {item.page_id for item in built.packet.context}
    assert "t59" in stayed
    assert "page0" in stayed
    offered = {f"t{number}" for number in range(60)} | {f"page{number}" for number in range(20)}
    assert set(built.manifest.dropped) == offered - stayed
    assert len(built.manifest.dropped) == len(offered - stayed)


async def test_a_long_prompt_takes_the_room_of_history_and_context(words, call) -> None:
    history, context = session(30), pages(5)
    limits = []
    for length in (10, 300, 800):
        request = build_request(mtu=1000, history=history, context=context, user_prompt="why " * length)
        built = await build(request, words, None, call)
        assert rows(built)["user_prompt"].tokens == length
        assert built.manifest.total_tokens <= 1000
        limits.append(rows(built)["history"].limit + rows(built)["context"].limit)
    assert limits[0] == limits[1] > limits[2]


async def test_a_prompt_that_fits_by_itself_to_the_token_is_sent_and_one_more_is_refused_with_numbers(
    words, call
) -> None:
    empty = (await build(build_request(user_prompt="x"), words, None, call)).manifest.total_tokens - 1
    request = build_request(history=session(9), context=pages(3), user_prompt="why " * (4096 - empty))
    built = await build(request, words, None, call)
    assert built.manifest.total_tokens == 4096
    assert (built.packet.history, built.packet.context) == ([], [])
    with pytest.raises(TokenBudgetError) as caught:
        await build(build_request(user_prompt="why " * (4097 - empty)), words, None, call)
    assert f"user_prompt has {4097 - empty} tokens and at most {4096 - empty} fit (1 too many)" in caught.value.message
    assert "raise the MTU to about 4097" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 1
    assert {name for name, _, _ in caught.value.fields} == {
        "identity", "persona", "role", "task_instruction", "template", "user_prompt"
    }  # fmt: skip


async def test_below_the_identitys_floor_it_says_which_mtu_would_do(words, call) -> None:
    with pytest.raises(TokenBudgetError, match=r"the smallest MTU that does is 67$"):
        await build(build_request(mtu=66), words, None, call)


async def test_a_persona_too_long_is_made_shorter_and_reported(words, call, compressor, heard) -> None:
    persona = "Tone: warm. " + "Style: short words, no jargon, always kind. " * 12
    built = await build(build_request(persona=persona), words, compressor, call)
    row = rows(built)["persona"]
    assert (row.limit, row.original_tokens, row.method) == (122, 136, "extractive")
    assert row.tokens == count_words(built.packet.persona) <= 122
    assert built.packet.persona.startswith(f"{SUMMARY_TAG} ")
    assert [(one.field, one.original_tokens, one.target_tokens) for one in heard] == [("persona", 136, 122)]
    with pytest.raises(TokenBudgetError, match="persona has 136 tokens and at most 122 fit"):
        await build(build_request(persona=persona), words, None, call)


async def test_a_task_instruction_has_64_tokens(words, call, compressor) -> None:
    task = "Write the plan now. " * 10 + "Number its steps. " * 10
    built = await build(build_request(task_instruction=task), words, compressor, call)
    row = rows(built)["task_instruction"]
    assert (row.limit, row.original_tokens, row.method) == (64, 90, "extractive")
    assert row.tokens <= 64


async def test_identity_is_never_touched(words, call, compressor, heard) -> None:
    identity = "Protect private data. " * 60
    built = await build(build_request(identity=identity), words, compressor, call)
    assert built.packet.identity == identity
    with pytest.raises(TokenBudgetError, match="never compressed"):
        await build(build_request(identity=identity + "Protect private data. " * 2), words, compressor, call)
    assert heard == []


async def test_turns_that_left_are_summarised_once_and_the_summary_is_carried_along(
    words, call, compressor, heard
) -> None:
    history = session(60)
    first = await build(build_request(mtu=1000, turn_id="t60", history=history), words, compressor, call)
    assert rows(first)["history"].method == "extractive"
    summary = first.packet.history[0]
    assert (summary.summary, summary.turn_id) == (True, first.manifest.dropped[-1])
    assert first.packet.history[1].turn_id == f"t{len(first.manifest.dropped)}"
    assert [one.field for one in heard] == ["history"]
    history += session(61)[-2:]
    request = build_request(mtu=1000, turn_id="t61", history=history, previous=first.packet)
    second = await build(request, words, compressor, call)
    assert second.packet.history[0] == summary
    assert rows(second)["history"].method == "carried"
    assert len(heard) == 1
    before = prompt(first).partition("system: You plan.")[0]
    assert len(before) > 500
    assert prompt(second).startswith(before)


async def test_one_turn_larger_than_all_the_room_is_made_shorter(words, call, compressor) -> None:
    history = session(1, words=3)
    long = ". ".join(f"Fact {number} is about lantern {number}" for number in range(200))
    history[1] = msgspec.structs.replace(history[1], text=long)
    built = await build(build_request(mtu=400, history=history), words, compressor, call)
    assert [entry.summary for entry in built.packet.history] == [True]
    assert built.manifest.total_tokens <= 400
    assert built.manifest.dropped == ["t0"]
    assert (await build(build_request(mtu=400, history=history), words, None, call)).packet.history == []


async def test_a_page_larger_than_all_the_room_is_made_shorter_when_no_other_fits(words, call, compressor) -> None:
    (page,) = pages(1)
    page = msgspec.structs.replace(page, text=". ".join(f"Fact {number} is a fact" for number in range(300)))
    built = await build(build_request(mtu=400, context=[page]), words, compressor, call)
    (short,) = built.packet.context
    assert short.summary
    assert short.text.startswith(SUMMARY_TAG)
    assert rows(built)["context"].method == "extractive"
    assert rows(built)["context"].tokens <= rows(built)["context"].limit
    assert built.manifest.dropped == ["page0"]


async def test_a_page_given_twice_stands_once_and_silent_turns_cost_nothing(words, call) -> None:
    history = session(1)
    history[1] = msgspec.structs.replace(history[1], text="")
    built = await build(build_request(history=history, context=[*pages(2), pages(1)[0]]), words, None, call)
    assert [item.page_id for item in built.packet.context] == ["page0", "page1"]
    assert [entry.role for entry in built.packet.history] == ["user"]


async def test_an_estimated_count_is_never_exceeded_either(clock, call) -> None:
    request = build_request(history=session(60), context=pages(30))
    built = await build(request, ByteEstimate(clock), None, call)
    assert len(prompt(built).encode()) // 3 < built.manifest.total_tokens <= 4096


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"identity": " "}, "needs an identity"),
        ({"user_prompt": "\n"}, "the prompt is empty"),
        ({"mtu": 0}, "mtu 0"),
        ({"reserve_tokens": -1}, "reserve_tokens -1"),
        ({"work_tokens": -1}, "work_tokens -1"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(words, call, change, message) -> None:
    with pytest.raises(BadInput, match=message):
        await build(build_request(**change), words, None, call)


async def test_the_same_request_gives_the_same_packet_with_or_without_what_was_counted_before(words, call) -> None:
    counter = PromptCounter()
    request = build_request(mtu=1500, history=session(80), context=pages(12))
    one = await build(request, words, None, call, counter)
    assert one == await build(request, words, None, call, counter) == await build(request, words, None, call)


async def test_room_is_held_free_for_work_to_come_and_work_takes_it(words, call) -> None:
    history = session(60)
    free = await build(build_request(mtu=1000, history=history), words, None, call)
    held = await build(build_request(mtu=1000, history=history, work_tokens=800), words, None, call)
    assert 1000 - held.manifest.total_tokens >= 800 > 1000 - free.manifest.total_tokens
    assert (rows(held)["work"].tokens, rows(held)["work"].limit) == (0, 1000 - held.manifest.total_tokens)
    assert "work" not in rows(free)
    work = [WorkItem("SUBJECT", "word " * 760, "prime")]
    full = await build(build_request(mtu=1000, history=history, work=work, work_tokens=800), words, None, call)
    assert full.packet.work == work
    assert len(full.packet.history) == len(held.packet.history) > 0
    assert sum(row.tokens for row in full.manifest.fields) == full.manifest.total_tokens <= 1000


async def test_held_room_does_not_refuse_a_long_prompt(words, call) -> None:
    request = build_request(mtu=1000, history=session(9), user_prompt="why " * 800, work_tokens=900)
    built = await build(request, words, None, call)
    assert (built.packet.history, rows(built)["user_prompt"].tokens) == ([], 800)
