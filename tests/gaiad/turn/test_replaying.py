"""Taking a stored packet up again: the same prompt, and after an upgrade the names of the texts that changed."""

from types import SimpleNamespace

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import Conflict
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.turn.turn_store import Sent, first_difference, replay
from gaiad.wire.generation import Segment
from prompts.budget import Built
from prompts.builder import build
from prompts.packet import PromptManifest, WorkItem
from tests.makers.cognition import build_request, pages, session


class Other:
    """Writes every conversation as one word."""

    async def render(self, messages, call):
        return [Segment("other")]


@pytest.fixture
async def built(clock: FrozenClock, call) -> Built:
    work = [WorkItem("PLAN", "1. Look it up.", "lite")]
    request = build_request(history=session(2), context=pages(1), work=work, model="print-1")
    return await build(request, WordTokenizer(clock), None, call)


@pytest.fixture
def pool(clock: FrozenClock) -> SimpleNamespace:
    """A pool of one model that counts words."""
    model = SimpleNamespace(tokenizer=WordTokenizer(clock), fingerprint="print-1", kind="gguf")
    return SimpleNamespace(
        name_of=lambda role: role,
        name_with=lambda fingerprint: "small" if fingerprint == "print-1" else "",
        model=lambda name: model,
    )


def sent(built: Built, manifest: PromptManifest) -> Sent:
    return Sent(packet=built.packet, manifest=manifest, request={}, reply={})


async def test_a_packet_with_work_gives_its_prompt_again_and_nothing_changed(built, pool, call) -> None:
    found = await replay(sent(built, built.manifest), pool, call, generate=False)
    assert (found.same_prompt, found.same_model, found.changed_prompts) == (True, True, ())
    assert "1. Look it up." in found.prompt


async def test_after_an_upgrade_it_names_the_prompt_texts_that_changed(built, pool, call) -> None:
    assert "quoted_memory" in built.manifest.prompts
    prompts = built.manifest.prompts | {"quoted_memory": "1-0000000000000000", "role_gone": "1-1111111111111111"}
    older = msgspec.structs.replace(built.manifest, prompts=prompts, prompt_sha256="0" * 64, model="print-0")
    found = await replay(sent(built, older), pool, call, generate=False)
    assert (found.same_prompt, found.same_model) == (None, False)
    assert found.changed_prompts == ("quoted_memory", "role_gone")


async def test_a_packet_from_before_prompts_were_recorded_names_none(built, pool, call) -> None:
    stored = msgspec.to_builtins(sent(built, built.manifest))
    del stored["manifest"]["prompts"]
    del stored["packet"]["work"]
    old = msgspec.convert(stored, Sent)
    found = await replay(old, pool, call, generate=False)
    assert (found.changed_prompts, found.same_prompt) == ((), False)


async def test_a_packet_without_a_reply_has_nothing_to_compare(built, pool, call) -> None:
    with pytest.raises(Conflict, match="has no stored reply"):
        await replay(sent(built, built.manifest), pool, call, generate=True)


async def test_the_model_it_was_sent_to_writes_it_again_though_its_role_has_another(built, pool, call) -> None:
    """The tokenizers differ in how they write a conversation, as templates do."""
    before, now = pool.model("small"), SimpleNamespace(tokenizer=Other(), fingerprint="print-2", kind="gguf")
    pool.model = lambda name: before if name == "small" else now
    found = await replay(sent(built, built.manifest), pool, call, generate=False)
    assert (found.same_prompt, found.same_model, found.model) == (True, True, "small")


async def test_without_that_model_it_says_so_and_not_that_the_prompt_differs(built, pool, call) -> None:
    now = SimpleNamespace(tokenizer=Other(), fingerprint="print-2", kind="gguf")
    pool.model, pool.name_with = lambda name: now, lambda fingerprint: ""
    found = await replay(sent(built, built.manifest), pool, call, generate=False)
    assert (found.same_prompt, found.same_model, found.model) == (None, False, built.packet.role)
    answered = msgspec.structs.replace(sent(built, built.manifest), reply={"text": "So.", "seed": 1})
    with pytest.raises(Conflict, match=r"a model that is no longer configured \(print-1\)"):
        await replay(answered, pool, call, generate=True)


async def test_another_prompt_of_the_same_model_is_another(built, pool, call) -> None:
    other = msgspec.structs.replace(built.manifest, prompt_sha256="0" * 64)
    found = await replay(sent(built, other), pool, call, generate=False)
    assert (found.same_prompt, found.same_model) == (False, True)


def test_the_first_difference_is_counted_from_nought() -> None:
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1], [1, 2]) == 1
    assert first_difference([1], [1]) == -1
