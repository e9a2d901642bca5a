"""Whether identity and directives fit every model there is (decision 7; GCP 5.1): at the start, and again when
settings or registry files change.

At the start a role's model that has no place for identity under the settings ends it; later that is a line in status.
Models that serve no role are measured beside the work: they may be loaded or given a role at any time.
"""

from collections.abc import Callable, Collection, Mapping

from gaiad.base.config import CognitionConfig
from gaiad.base.errors import BadInput, ConfigError, GaiadError, TokenBudgetError, Unavailable
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models.pool.pooled import PooledModel
from gaiad.wire.generation import Segment
from prompts.budget import check_identity, identity_limit, smallest_mtu
from prompts.registry import Registry, RegistryWatch
from prompts.task_instructions import LengthProblem, check_lengths


class Fitting:
    """`models` gives all there are at the moment by name, `in_roles` the names of those that serve a role."""

    def __init__(
        self,
        registry: RegistryWatch,
        models: Callable[[], Mapping[str, PooledModel]],
        in_roles: Callable[[], Collection[str]],
        config: CognitionConfig,
    ) -> None:
        self._registry = registry
        self._models = models
        self._in_roles = in_roles
        self._config = config
        self._measured: Registry | None = None
        self._notes: dict[str, list[str]] = {}
        self._tasks = TaskGroup("fitting")

    async def start(self) -> None:
        """Measure the roles' models, and begin with the others. Raises ConfigError as `measure`."""
        self._measured = self._registry.registry
        models, in_roles = self._models(), set(self._in_roles())
        for name in models:
            if name in in_roles:
                self._notes[name] = await measure(self._measured, models[name], self._config, RequestContext())
        self._begin(set(models) - in_roles)

    async def stop(self) -> None:
        """Measure no more."""
        await self._tasks.stop()

    async def settled(self) -> None:
        """Wait until everything that was begun is measured."""
        await self._tasks.wait()

    def use_config(self, config: CognitionConfig) -> None:
        """Measure again under these settings, with the models there are now."""
        self._config = config
        self._begin(self._models())

    def notes(self) -> list[str]:
        """What does not fit, as far as it is measured; registry files that changed since are measured from now on."""
        if self._measured is not None and self._registry.registry is not self._measured:
            self._measured = self._registry.registry
            self._begin(self._models())
        return [note for name in self._models() for note in self._notes.get(name) or self._smaller(name)]

    def _smaller(self, name: str) -> list[str]:
        """A line when a role's model gets smaller packets than the settings say; it works, so this is not a fault."""
        window, config = self._models()[name].window, self._config
        if name not in self._in_roles() or not window or config.mtu + config.reserve_tokens <= window:
            return []
        return [
            f"{name}: its context of {window} tokens less cognition.reserve_tokens = {config.reserve_tokens} leaves "
            f"packets of {window - config.reserve_tokens} instead of {config.mtu}; give it a context of "
            f"{config.mtu + config.reserve_tokens}, or lower cognition.mtu"
        ]

    def _begin(self, names: Collection[str]) -> None:
        for name in names:
            self._tasks.start(name, self._measure(name))

    async def _measure(self, name: str) -> None:
        """In the background nothing is refused: what is wrong is in status."""
        registry, config = self._registry.registry, self._config
        if (model := self._models().get(name)) is None:
            return
        try:
            found = await measure(registry, model, config, RequestContext(priority=Priority.BACKGROUND))
        except ConfigError as error:
            found = [f"{error.message}; turns with {name} are refused until then"]
        except GaiadError as error:
            found = [f"identity was not measured with {name}: {error.message}"]
        if (registry, config) == (self._registry.registry, self._config):
            self._notes[name] = found


async def measure(registry: Registry, model: PooledModel, config: CognitionConfig, call: RequestContext) -> list[str]:
    """What is worth a word though other models work: instructions too long, a model that cannot be asked, one whose
    own context is too small.

    Raises ConfigError when identity does not fit the MTU under the model's tokenizer, naming the smallest that does.
    """
    try:
        tokens = (await model.tokenizer.count([[Segment(registry.identity_text())]], call))[0]
        check_identity(tokens, config.mtu)
        lengths = await check_lengths(registry.task_instructions, {model.name: model.tokenizer}, call)
    except TokenBudgetError as error:
        raise ConfigError(f"cognition.mtu = {config.mtu}, model {model.name}: {error.message}") from error
    except (Unavailable, BadInput) as error:
        return [f"identity was not measured with {model.name}: {error.message}"]
    return [*_too_narrow(model, tokens, config), *_too_long(model.name, lengths)]


def _too_narrow(model: PooledModel, identity_tokens: int, config: CognitionConfig) -> list[str]:
    """A line when the model's own context, less the reply's room, has no place for the identity."""
    room = max(0, model.window - config.reserve_tokens)
    if not model.window or identity_tokens <= identity_limit(min(config.mtu, room)):
        return []
    needed = smallest_mtu(identity_tokens)
    return [
        f"{model.name}: its context of {model.window} tokens less cognition.reserve_tokens = {config.reserve_tokens} "
        f"leaves {room} for a packet, and the identity of {identity_tokens} tokens needs {needed}; turns with it are "
        f"refused: give it a context of {needed + config.reserve_tokens} or lower cognition.reserve_tokens"
    ]


def _too_long(name: str, problems: list[LengthProblem]) -> list[str]:
    """One line for a model, however many instructions its vocabulary cuts too finely (GCP 5.1)."""
    if not problems:
        return []
    worst = max(problems, key=lambda problem: problem.tokens - problem.limit)
    others = f" and {len(problems) - 1} others" if len(problems) > 1 else ""
    return [f"{worst}{others}; a turn with {name} will be refused or use a summary"]
