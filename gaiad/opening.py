"""Opens what a conversation stands on at the daemon's start, and checks that identity fits (decision 7; GCP 5.1)."""

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from gaiad.clock import Clock
from gaiad.cognition import Assembler
from gaiad.config import CognitionConfig, Config
from gaiad.conversing import Conversations
from gaiad.errors import BadInput, ConfigError, TokenBudgetError, Unavailable
from gaiad.generation import Segment
from gaiad.ids import IdMaker
from gaiad.ledger.cognition_log import CognitionLog
from gaiad.logs import get_logger
from gaiad.metrics import Metrics
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Archive, Call, Embedder
from gaiad.reading_ahead import ReadAhead
from gaiad.remembering import Keeper
from gaiad.research.loop import Researcher
from gaiad.turn import TurnTaker
from prompts.budget import check_identity, identity_limit, smallest_mtu
from prompts.compress import BudgetOverrun
from prompts.identity import Identity
from prompts.load import check_all
from prompts.registry import Registry, RegistryWatch, check_task_lengths
from prompts.task_instructions import LengthProblem

_FOLDER = "cognition"
_log = get_logger("gaiad.cognition")


async def open_conversations(
    stack: AsyncExitStack,
    home: Path,
    config: Config,
    clock: Clock,
    archive: Archive,
    researcher: Researcher,
    pool: ModelPool,
    embedder: Embedder | None,
    metrics: Metrics,
    identity: Identity,
) -> Conversations:
    """Registry, cognition log, assembler and turns. Raises ConfigError when the stack cannot go into a packet."""
    check_all()
    registry = RegistryWatch(home, identity)
    models = {name: pool.model(name) for name in dict.fromkeys(pool.roles.values())}
    for problem in registry.problems:
        _log.warning("registry file not used", file=problem.file, line=problem.line, problem=problem.message)
    notes = await check_stack(registry.registry, models, config.cognition)
    log = CognitionLog(home / _FOLDER, clock)
    stack.push_async_callback(log.close)
    assembler = Assembler(
        config=config.cognition,
        archive=archive,
        researcher=researcher,
        registry=registry,
        pool=pool,
        embedder=embedder,
        clock=clock,
        report=lambda overrun: _report(overrun, metrics),
    )
    keeper = Keeper(archive, log, clock)
    stack.push_async_callback(keeper.close)
    ahead = ReadAhead()
    stack.push_async_callback(ahead.stop)
    taker = TurnTaker(assembler, archive, keeper, IdMaker(clock), config.cognition.history_turns, ahead)
    return Conversations(taker, assembler, archive, log, pool, metrics, notes)


async def check_stack(registry: Registry, models: dict[str, PooledModel], config: CognitionConfig) -> list[str]:
    """What is worth a word though it is no reason not to start, for other roles work: instructions too long, a model
    that cannot be asked, one whose own context is too small.

    Raises ConfigError when identity does not fit the MTU under a model's tokenizer, naming the smallest that does.
    """
    notes: list[str] = []
    call = Call()
    text = [Segment(registry.identity_text())]
    for name, model in models.items():
        try:
            tokens = (await model.tokenizer.count([text], call))[0]
            check_identity(tokens, config.mtu)
            notes += _too_narrow(model, tokens, config)
            notes += _too_long(name, await check_task_lengths(registry, {name: model.tokenizer}, call))
        except TokenBudgetError as error:
            raise ConfigError(f"cognition.mtu = {config.mtu}, model {name}: {error.message}") from error
        except (Unavailable, BadInput) as error:
            notes.append(f"identity was not measured with {name}: {error.message}")
    return notes


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


def _report(overrun: BudgetOverrun, metrics: Metrics) -> None:
    """GCP 4.2: a structured TOKEN_BUDGET_OVERRUN for each compression."""
    metrics.count("token_budget_overruns")
    _log.warning("TOKEN_BUDGET_OVERRUN", **msgspec.structs.asdict(overrun))
