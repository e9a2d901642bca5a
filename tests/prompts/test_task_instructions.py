"""Task instructions: the seed's keys and schema, and their length in every vocabulary."""

import datetime
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tokenizers import Tokenizer as BytePairs
from tokenizers import models, pre_tokenizers, trainers

from constants.load import load
from gaiad.base.clock import FrozenClock, SystemClock
from gaiad.base.errors import ConfigError
from gaiad.base.ports import RequestContext
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.models.tokens.word_tokenizer import ByteEstimate, WordTokenizer
from prompts.load import load_prompt, prompt_names
from prompts.registry import Registry
from prompts.task_instructions import MOST_TOKENS, TaskInstruction, check_lengths, directive_name, with_words
from tests.makers.llama_files import write_tiny_llama

SEED_STAGES = {
    "initial_planning": "plan",
    "refinement": "refine",
    "observer": "observe",
    "interruption_handling": "act",
    "verification": "verify",
}
OURS = {
    "act": "act",
    "act_command": "act",
    "observer_window": "observe",
    "execute_review": "judge",
    "advice": "judge",
    "advice_review": "judge",
    "ballot": "judge",
    "initiative": "judge",
    "rfc_review": "judge",
    "persona_review": "judge",
    "compressor": "judge",
    "research_planning": "judge",
    "research_reflection": "judge",
    "research_synthesis": "judge",
}


def instruction(text: str, most: int = MOST_TOKENS) -> TaskInstruction:
    return TaskInstruction(text=text, stage="act", max_tokens=most, last_updated=datetime.date(2026, 1, 2))


def test_the_seeds_keys_have_the_seeds_stages(tmp_path: Path) -> None:
    shipped = Registry.load(tmp_path).task_instructions
    assert {key: each.stage for key, each in shipped.items()} == SEED_STAGES | OURS


@pytest.mark.parametrize(
    ("key", "said"),
    [("initial_planning", "plan"), ("refinement", "how sure"), ("observer", "stop"), ("act", "reply"),
     ("act_command", "command"),
     ("interruption_handling", "again"), ("verification", "success")],
)  # fmt: skip
def test_each_stage_is_told_what_to_write_without_its_marker(tmp_path: Path, key: str, said: str) -> None:
    """GCP 6; the markers are the router's and the contracts' business."""
    text = Registry.load(tmp_path).task_instruction(key).text
    assert said in text
    assert not re.search(r"[A-Z_]{4,}:|block", text)


def test_every_stage_and_judge_has_one_prompt_file_and_the_words_stand_nowhere_else(tmp_path: Path) -> None:
    entries = load("task_instructions.toml", dict[str, dict[str, Any]])
    shipped = Registry.load(tmp_path).task_instructions
    directives = {name for name in prompt_names() if name.startswith(("stage_", "judge_"))}
    assert {directive_name(key, entry) for key, entry in entries.items()} == directives
    assert all("text" not in entry for entry in entries.values())
    for key, each in shipped.items():
        assert each.text == load_prompt(directive_name(key, entries[key])).body.strip()


@pytest.mark.parametrize("change", [{"dream": {"stage": "plan"}}, {"act": {"stage": "judge"}}])
def test_an_entry_without_its_prompt_file_is_an_error_at_start(change: dict[str, Any]) -> None:
    entries = load("task_instructions.toml", dict[str, dict[str, Any]])
    with pytest.raises(ConfigError, match=r"x\.toml and prompts/text do not go together in (stage_dream|judge_act)"):
        with_words("x.toml", entries | change)


def test_a_prompt_file_without_an_entry_is_an_error_at_start() -> None:
    entries = load("task_instructions.toml", dict[str, dict[str, Any]])
    with pytest.raises(ConfigError, match="do not go together in stage_act"):
        with_words("x.toml", {key: entry for key, entry in entries.items() if key != "act"})


async def test_shipped_texts_fit_by_words_and_by_byte_pairs(
    tmp_path: Path, clock: FrozenClock, call: RequestContext
) -> None:
    registry = Registry.load(tmp_path)
    assert await check_lengths(registry.task_instructions, {"words": WordTokenizer(clock)}, call) == []
    pairs = BytePairs(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel()
    seeds = Path(__file__).parent.parent.parent / "constants"
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False)
    pairs.train([str(path) for path in seeds.glob("*.toml")], trainer)
    counts = {key: len(pairs.encode(each.text).ids) for key, each in registry.task_instructions.items()}
    assert max(counts.values()) <= MOST_TOKENS, counts


async def test_a_vocabulary_of_bytes_has_them_all_reported_with_numbers(tmp_path: Path, call: RequestContext) -> None:
    """The tiny GGUF spends a token on a byte: no directive worth the name fits in 64 of those."""
    path = write_tiny_llama(tmp_path / "tiny.gguf")
    worker = TokenWorker(SystemClock("UTC"))
    await worker.start()
    try:
        texts = {"long": instruction("x" * 65), "short": instruction("x" * 64), "own": instruction("word", most=3)}
        found = await check_lengths(texts, {"tiny": worker.tokenizer(path, "")}, call)
    finally:
        await worker.close()
    assert [(each.key, each.tokens, each.limit, each.exact) for each in found] == [
        ("long", 65, 64, True),
        ("own", 4, 3, True),
    ]
    assert str(found[0]) == ("task instruction 'long': 65 tokens under tiny, 1 above its 64; shorten its text")


async def test_every_tokenizer_is_asked_and_estimates_say_so(clock: FrozenClock, call: RequestContext) -> None:
    texts = {"b": instruction("one two three " * 30), "a": instruction("short")}
    found = await check_lengths(texts, {"words": WordTokenizer(clock), "remote": ByteEstimate(clock)}, call)
    assert [(each.key, each.tokenizer, each.exact) for each in found] == [("b", "words", True), ("b", "remote", False)]
    assert ": about " in str(found[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stage": "dream"}, "Invalid enum value 'dream'"),
        ({"max_tokens": 65}, "<= 64"),
        ({"last_updated": "yesterday"}, "date"),
        ({"text": ""}, ">= 1"),
        ({"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_what_the_seeds_schema_does_not_allow_is_refused(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"text": "x", "stage": "act", "max_tokens": 64, "last_updated": datetime.date(2026, 1, 2)}
    msgspec.convert(good, TaskInstruction)
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(good | change, TaskInstruction)
