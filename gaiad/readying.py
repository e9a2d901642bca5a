"""The forms that replies are held to, compiled before the first turn asks for them.

A grammar is walked to its end under the vocabulary of the model (decision 3): seconds for a real vocabulary, which the
first person to ask after a start would otherwise wait for. In the background, and nobody is told when it fails: who
asks hears it then.
"""

from collections.abc import Iterable, Iterator

from council.ballots import ballot_schema
from council.command_review import review_form
from council.course import Rulebook
from council.roles import STAGES
from council.stages import Form, stage_form
from gaiad.errors import GaiadError
from gaiad.generation import GenerateRequest
from gaiad.logs import get_logger
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Call, Priority
from gaiad.tasks import TaskGroup

_log = get_logger("gaiad.models")


class Readying:
    """`reserve_tokens` are an answer's, as set."""

    def __init__(self, models: Iterable[PooledModel], rules: Rulebook, reserve_tokens: int) -> None:
        self._models = [model for model in models if model.kind == "gguf"]
        self._forms = [*forms(rules, reserve_tokens)]
        self._tasks = TaskGroup("readying")

    def start(self) -> None:
        """Begin, one model after the other."""
        if self._models:
            self._tasks.start("forms", self._compile())

    async def stop(self) -> None:
        """Compile no more."""
        await self._tasks.stop()

    async def settled(self) -> None:
        """Wait until what was begun is done."""
        await self._tasks.wait()

    async def _compile(self) -> None:
        for model in self._models:
            for form in self._forms:
                try:
                    await model.compile(form, Call(priority=Priority.BACKGROUND))
                except GaiadError as error:
                    _log.info("form_not_ready", model=model.name, why=error.message)


def forms(rules: Rulebook, reserve_tokens: int) -> Iterator[GenerateRequest]:
    """What the stages, a ballot and a review of a command are asked in; any role may stand in at any stage."""
    for stage in STAGES:
        limit = rules.stages.stages[stage].max_tokens
        if stage == "act":
            yield _request(stage_form(stage, reserve_tokens))
            yield _request(stage_form(stage, reserve_tokens, may_execute=True))
        else:
            yield _request(stage_form(stage, limit))
    yield _request(Form(schema=ballot_schema(rules.limits.voting.ballot_tokens)))
    yield _request(review_form(rules.limits.execute.review_tokens))


def _request(form: Form) -> GenerateRequest:
    return GenerateRequest(max_tokens=1, contract=form.contract, schema=form.schema)
