"""What is said at the start of a stack that does not fit: the settings end it, one model's own limits are a note."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from gaiad.clock import SystemClock
from gaiad.config import CognitionConfig, load_config
from gaiad.errors import BadInput, ConfigError
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.opening import check_stack
from prompts.registry import Registry


class Refusing(WordTokenizer):
    async def count(self, *_: Any) -> list[int]:
        raise BadInput("the template cannot be read")


def settings(**changes: int) -> CognitionConfig:
    return structs.replace(load_config(environment={}).cognition, **changes)


async def notes_of(home: Path, config: CognitionConfig, window: int, tokenizer: WordTokenizer | None = None) -> str:
    model: Any = SimpleNamespace(name="tiny", window=window, tokenizer=tokenizer or WordTokenizer(SystemClock()))
    return "\n".join(await check_stack(Registry.load(home), {"tiny": model}, config))


@pytest.mark.parametrize("window", [0, 8192])
async def test_a_model_of_unknown_or_wide_context_has_no_note(tmp_path: Path, window: int) -> None:
    assert "reserve_tokens" not in await notes_of(tmp_path, settings(), window)


@pytest.mark.parametrize(("window", "room"), [(600, 88), (512, 0), (100, 0)])
async def test_a_context_with_no_place_for_identity_is_a_note(tmp_path: Path, window: int, room: int) -> None:
    said = await notes_of(tmp_path, settings(), window)
    assert f"tiny: its context of {window} tokens less cognition.reserve_tokens = 512 leaves {room}" in said


async def test_the_context_that_the_note_asks_for_is_enough(tmp_path: Path) -> None:
    said = await notes_of(tmp_path, settings(), 600)
    wide = int(said.partition("give it a context of ")[2].partition(" ")[0])
    assert "reserve_tokens" not in await notes_of(tmp_path, settings(), wide)
    assert "reserve_tokens" in await notes_of(tmp_path, settings(), wide - 1)


async def test_an_mtu_too_small_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cognition\.mtu = 100, model tiny: .*the smallest MTU that does is"):
        await notes_of(tmp_path, settings(mtu=100), 8192)


async def test_a_tokenizer_that_refuses_is_a_note(tmp_path: Path) -> None:
    said = await notes_of(tmp_path, settings(), 8192, Refusing(SystemClock()))
    assert said == "identity was not measured with tiny: the template cannot be read"
