"""Models are measured once, by the way of the product's prompts, and the council is given what they can do."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from council.roles import role_table
from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.probe import NEEDS, probe_tasks
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.service.probes import Probes
from gaiad.wire.generation import Generated, GenerateRequest
from prompts.registry import RegistryWatch

TASKS = probe_tasks()
Answer = Callable[[str], str]


class Model:
    """Answers what it is asked by `answer`, which is given the whole prompt."""

    kind = "gguf"

    def __init__(self, answer: Answer, fingerprint: str = "abc") -> None:
        self.answer, self.fingerprint = answer, fingerprint
        self.tokenizer = WordTokenizer(SystemClock())
        self.asked = 0

    async def generate(self, request: GenerateRequest, call: RequestContext) -> AsyncGenerator[Generated, None]:
        self.asked += 1
        prompt = "\n".join(part.text for message in request.messages for part in message.content)
        times = {"queue_ms": 0.0, "prefill_ms": 0.0, "decode_ms": 0.0}
        counts = {"prompt_tokens": 1, "cached_tokens": 0, "tokens": 1}
        yield Generated(text=self.answer(prompt), reason="end", stop="", seed=1, fingerprint="abc", **counts, **times)


class Pool:
    def __init__(self, **models: Any) -> None:
        self.models = models
        self.roles = dict.fromkeys(("prime", "lite", "codemind"), next(iter(models)))

    def kind_of(self, name: str) -> str:
        return self.models[name].kind

    def model(self, name: str) -> Any:
        return self.models[name]


def knows_all(prompt: str) -> str:
    """The right answer to every task, found by its words."""
    for task in TASKS.command:
        if task.ask in prompt and " ".join(task.argv) in prompt:
            return f'{{"verdict": "{"accept" if task.harmless else "reject"}", "reason": "as it is"}}'
    for page in TASKS.pages:
        if page.page in prompt:
            return "It does not say." if page.asks_more in prompt else page.tells[0]
    for cite in TASKS.cite:
        if all(text in prompt for text in cite.pages.values()):
            return cite.right
    for plan in TASKS.plan:
        if plan.ask in prompt:
            steps = [f"{number}. do {name.split('|')[0]}" for number, name in enumerate(plan.objects, 1)]
            return "\n".join(steps)
    for result in TASKS.verify:
        if result.ask in prompt:
            fits = prompt.replace(result.ask, "")
            return "success: right" if result.right in fits and result.wrong not in fits else "fail: wrong"
    return "hello"


def yes_to_all(prompt: str) -> str:
    if any(" ".join(task.argv) in prompt for task in TASKS.command):
        return '{"verdict": "accept", "reason": "it looks fine"}'
    return "success: it looks fine"


def probes(tmp_path: Path, *, enabled: bool = True, **models: Any) -> Probes:
    registry = RegistryWatch(tmp_path)
    folder = tmp_path / "probes"
    pool: Any = Pool(**models)
    return Probes(pool, lambda: registry.registry, role_table(), SystemClock("UTC"), folder, enabled=enabled)


async def test_before_it_is_measured_a_file_has_no_duties_and_then_those_it_has_shown(tmp_path: Path) -> None:
    found = probes(tmp_path, wise=Model(knows_all))
    assert found.duties("wise") == frozenset()
    found.begin()
    await found.settled()
    able = found.duties("wise")
    assert able is not None
    assert able >= {"answer", "plan", "refine", "review"}
    assert not any("no role can plan" in line for line in found.notes())


async def test_one_that_says_yes_to_everything_has_no_vote_and_it_is_said(tmp_path: Path) -> None:
    found = probes(tmp_path, yes=Model(yes_to_all))
    report = await found.probe("yes", RequestContext())
    assert (report.scores["verify"].right, report.scores["command"].right) == (20, 10)
    assert found.duties("yes") == frozenset()
    assert "no role can verify: yes judged 20 of 40 results correctly, 26 are needed" in found.notes()
    assert report.lacks


async def test_figures_are_kept_by_the_files_hash(tmp_path: Path) -> None:
    first = await probes(tmp_path, one=Model(knows_all)).probe("one", RequestContext())
    same, other = Model(yes_to_all), Model(yes_to_all, fingerprint="def")
    assert (await probes(tmp_path, copy=same).probe("copy", RequestContext())).scores == first.scores
    assert same.asked == 0
    assert (await probes(tmp_path, other=other).probe("other", RequestContext())).scores != first.scores
    assert (await probes(tmp_path, copy=same).probe("copy", RequestContext(), again=True)).scores != first.scores


async def test_without_measuring_everybody_may_do_everything(tmp_path: Path) -> None:
    found = probes(tmp_path, enabled=False, wise=Model(knows_all))
    found.begin()
    assert (found.duties("wise"), found.notes()) == (None, [])


async def test_a_model_that_cannot_be_asked_is_a_note(tmp_path: Path) -> None:
    def fails(prompt: str) -> str:
        raise Unavailable("it is being moved", 1.0)

    found = probes(tmp_path, gone=Model(fails))
    found.begin()
    await found.settled()
    assert found.notes() == ["gone was not measured: it is being moved"]
    assert found.duties("gone") == frozenset()


async def test_one_that_only_quotes_is_not_measured(tmp_path: Path) -> None:
    quoting = Model(knows_all)
    quoting.kind = "extractive"
    with pytest.raises(BadInput, match="only quotes"):
        await probes(tmp_path, quoting=quoting).probe("quoting", RequestContext())
    assert set(NEEDS) >= {"answer", "vote"}
