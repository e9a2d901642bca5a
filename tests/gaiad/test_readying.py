"""The forms of replies are ready before a turn asks for them."""

import pytest

from council.stages import stage_form
from gaiad.clock import SystemClock
from gaiad.config import load_config
from gaiad.errors import Unavailable
from gaiad.generation import GenerateRequest
from gaiad.models.supervision.protocol import CheckGrammar
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.readying import Readying, forms
from gaiad.turn.company import rulebook
from tests.makers.chat_llama import write_chat_llama
from tests.makers.council_house import ROLES, House
from tests.makers.council_of_workers import workers

RESERVE = 256  # of the house


@pytest.fixture
def grammars_asked_for(monkeypatch):
    """How many grammars the tokenizer child was asked to check so far."""
    asked, ask = [], TokenWorker.ask

    async def noted(self, make, call):
        asked.extend([one] if isinstance(one := make(0), CheckGrammar) else [])
        return await ask(self, make, call)

    monkeypatch.setattr(TokenWorker, "ask", noted)
    return asked


async def test_a_full_turn_finds_every_form_ready(tmp_path, open_archive, config, grammars_asked_for):
    clock = SystemClock("UTC")
    path = write_chat_llama(tmp_path / "chat.gguf")
    async with workers(clock, dict.fromkeys(ROLES, path)) as pool:
        models = {role: pool.model(role) for role in ROLES}
        readying = Readying(models.values(), rulebook(config.council), RESERVE)
        readying.start()
        await readying.settled()
        assert len(grammars_asked_for) == len({repr(form) for form in forms(rulebook(config.council), RESERVE)})
        (tmp_path / "house").mkdir()
        house = House(tmp_path / "house", await open_archive(), clock, config, {}, full_deadline_s=60.0)
        house.models = models
        await house.open()
        try:
            await house.say("What is there?", depth="full", seed=1)
        finally:
            await house.close()
    assert len(grammars_asked_for) == len([*forms(rulebook(config.council), RESERVE)]), grammars_asked_for[8:]


async def test_what_cannot_be_had_is_tried_and_left():
    asked = []

    class Gone:
        name, kind = "gone", "gguf"

        async def compile(self, request, call):
            asked.append(request)
            raise Unavailable("gone: no such file")

    class Remote:
        name, kind = "remote", "openai"

    rules = rulebook(load_config(environment={}).council)
    readying = Readying([Gone(), Remote()], rules, RESERVE)
    readying.start()
    await readying.settled()
    assert asked == [*forms(rules, RESERVE)]
    act = stage_form("act", RESERVE, may_execute=True)
    assert GenerateRequest(max_tokens=1, contract=act.contract) in asked
    await readying.stop()
