"""What does not fit a model: a role's model ends a start, everything else and everything later is a line in status."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from gaiad.base.clock import SystemClock
from gaiad.base.config import CognitionConfig, load_config
from gaiad.base.errors import BadInput, ConfigError
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.service.identity_fit import Fitting
from prompts.registry import RegistryWatch

LONG = '[wordy]\ntext = "{}"\nstage = "act"\nlast_updated = 2026-01-02\n'


class Refusing(WordTokenizer):
    async def count(self, *_: Any) -> list[int]:
        raise BadInput("the template cannot be read")


class Waiting(WordTokenizer):
    """Counts when it is let."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        self.go_on = asyncio.Event()

    async def count(self, *arguments: Any) -> list[int]:
        await self.go_on.wait()
        return await super().count(*arguments)


def settings(**changes: int) -> CognitionConfig:
    return structs.replace(load_config(environment={}).cognition, **changes)


def model(name: str, window: int = 0, tokenizer: WordTokenizer | None = None) -> Any:
    return SimpleNamespace(name=name, window=window, tokenizer=tokenizer or WordTokenizer(SystemClock()))


def fitting(home: Path, *models: Any, in_roles: tuple[str, ...] = ("tiny",), **changes: int) -> Fitting:
    named = {each.name: each for each in models}
    return Fitting(RegistryWatch(home), lambda: named, lambda: in_roles, settings(**changes))


async def test_what_fits_has_no_note(tmp_path: Path) -> None:
    found = fitting(tmp_path, model("tiny"), model("wide", 8192))
    await found.start()
    await found.settled()
    assert found.notes() == []


async def test_a_roles_model_without_a_place_for_identity_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cognition\.mtu = 100, model tiny: .*the smallest MTU that does is"):
        await fitting(tmp_path, model("tiny"), mtu=100).start()


async def test_a_model_without_a_role_is_measured_beside_the_work_and_ends_nothing(tmp_path: Path) -> None:
    slow = Waiting(SystemClock())
    found = fitting(tmp_path, model("tiny"), model("spare", 600, slow), model("odd", 0, Refusing(SystemClock())))
    await asyncio.wait_for(found.start(), 30)
    assert not [note for note in found.notes() if "spare" in note]
    slow.go_on.set()
    await found.settled()
    said = "\n".join(found.notes())
    assert "spare: its context of 600 tokens less cognition.reserve_tokens = 512 leaves 88" in said
    assert "identity was not measured with odd: the template cannot be read" in said
    await found.stop()


async def test_other_settings_are_measured_anew_and_are_a_note_until_they_fit(tmp_path: Path) -> None:
    found = fitting(tmp_path, model("tiny"))
    await found.start()
    found.use_config(settings(mtu=100))
    await found.settled()
    (note,) = found.notes()
    assert note.startswith("cognition.mtu = 100, model tiny: ")
    assert note.endswith("turns with tiny are refused until then")
    found.use_config(settings())
    await found.settled()
    assert found.notes() == []


async def test_settings_that_changed_while_it_measured_win(tmp_path: Path) -> None:
    slow = Waiting(SystemClock())
    slow.go_on.set()
    found = fitting(tmp_path, model("tiny", 0, slow))
    await found.start()
    slow.go_on.clear()
    found.use_config(settings(mtu=100))
    await asyncio.sleep(0)
    found.use_config(settings())
    slow.go_on.set()
    await found.settled()
    assert found.notes() == []


async def test_an_instruction_of_the_users_that_is_too_long_is_a_note_after_the_next_look(tmp_path: Path) -> None:
    watch = RegistryWatch(tmp_path)
    found = Fitting(watch, lambda: {"tiny": model("tiny")}, lambda: ["tiny"], settings())
    await found.start()
    place = tmp_path / "registry" / "task_instructions"
    place.mkdir(parents=True)
    (place / "mine.toml").write_text(LONG.format("word " * 90))
    assert watch.refresh() is not None
    assert found.notes() == []
    await found.settled()
    (note,) = found.notes()
    assert "task instruction 'wordy': 90 tokens under tiny, 26 above its 64" in note


async def test_a_roles_model_with_smaller_packets_than_set_is_one_note_and_another_model_none(tmp_path: Path) -> None:
    found = fitting(tmp_path, model("tiny", 4096), model("spare", 4096), mtu=4096, reserve_tokens=512)
    await found.start()
    await found.settled()
    assert found.notes() == [
        "tiny: its context of 4096 tokens less cognition.reserve_tokens = 512 leaves packets of 3584 instead of 4096; "
        "give it a context of 4608, or lower cognition.mtu"
    ]
    found.use_config(settings(mtu=3584, reserve_tokens=512))
    await found.settled()
    assert found.notes() == []
