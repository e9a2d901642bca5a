"""What the council costs: a stage besides its model, and a turn of full depth beside cold calls of the same prompts."""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gaiad.base.errors import Unavailable
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.rows import Row, percentile
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import StageRecord, TurnRecord
from gaiad.wire.generation import Generated
from gaiad.wire.schemas import DEFAULT_TENANT
from tests.bench.council_house import open_house
from tests.bench.made_session import half_billion_of_words, made_questions, made_turns, write_chat_llama
from tests.bench.measured_pool import Asked

CHAIN = ("plan", "refine", "act", "verify")
STAGES = ("plan", "refine", "observe", "act", "verify")
_SCRIPTED_TURNS, _WORKER_TURNS = 40, 12
_REPLY_TOKENS = 32
_SETTLED = 2  # turns; the first ones open databases and start the tokenizers' child
_STAGE_AIM = "<= 15"
_RATIO_AIM = "<= 0.4"
_STAGE_TOKENS = 64
_SAID_BEFORE = 22  # turns; they and the rest of the packet are about 2,000 tokens
_SCRIPT = """
[[reply]]
match = "Do not answer yet"
text = 'PLAN: {"steps": ["say hello"]}'
[[reply]]
match = "errors, gaps and risks"
text = 'PLAN: {"confidence": 0.8, "steps": ["say hello"]}'
[[reply]]
match = "Say success when"
text = 'VERIFY: {"outcome": "success", "summary": "it says hello"}'
[[reply]]
text = "RESPONSE: Hello, and welcome."
"""


class Besides(NamedTuple):
    """One turn's milliseconds: of each stage what its model did not take, and what is outside of all stages."""

    stages: list[float]
    outside: float


class Cold(NamedTuple):
    """A call of the turn and the same in a worker that had read nothing."""

    asked: Asked
    reply: Generated
    seconds: float


def measure_council() -> list[Row]:
    """Stages over the socket, on scripts and on a tiny worker; then a turn of the 0.5 B shape, warm and cold."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        rows = overhead_rows("a scripted model", _scripted(Path(scratch)), _SCRIPTED_TURNS)
        tiny = write_chat_llama(Path(scratch) / "chat.gguf")
        rows += overhead_rows("a tiny worker", _one_worker(tiny), _WORKER_TURNS)
        model = half_billion_of_words(os.environ)
        return [*rows, *asyncio.run(full_turn_rows(Path(scratch) / "full", model, _SAID_BEFORE, _STAGE_TOKENS))]


# -- a stage besides its model


def _scripted(scratch: Path) -> list[str]:
    script = scratch / "script.toml"
    script.write_text(_SCRIPT, encoding="utf-8")
    known = f'models.known={{script = {{kind = "scripted", path = "{script}"}}}}'
    return [known, *(f"roles.{role}=script" for role in ("prime", "lite", "codemind"))]


def _one_worker(model: Path) -> list[str]:
    return [f"roles.{role}={model}" for role in ("prime", "lite", "codemind")]


def overhead_rows(which: str, settings: Sequence[str], turns: int) -> list[Row]:
    """`turns` of full depth through a daemon with these roles."""
    with running_daemon("embedder.kind=none", *settings) as daemon:
        daemon.client.load_model("prime")
        found = [_take(daemon, number, message) for number, message in enumerate(made_questions(turns + _SETTLED))]
    stages = [ms for turn in found[_SETTLED:] for ms in turn.stages]
    outside = [turn.outside for turn in found[_SETTLED:]]
    return [
        Row(what=f"a stage besides its model, {which}", value=statistics.median(stages), unit="ms p50"),
        Row(what=f"  {len(stages)} stages of {turns} turns", value=percentile(stages), unit="ms p95", aim=_STAGE_AIM),
        Row(what="  a turn outside of its stages", value=statistics.median(outside), unit="ms p50"),
        Row(what="", value=percentile(outside), unit="ms p95"),
    ]


def _take(daemon: BenchDaemon, number: int, message: str) -> Besides:
    request = ChatRequest(message=message, session_id=f"s{number}", depth="full", max_tokens=_REPLY_TOKENS, seed=number)
    started = time.perf_counter()
    done = [*daemon.client.chat_events(request)][-1].data
    wall_ms = (time.perf_counter() - started) * 1000
    return besides(daemon.client.council.turn(done["turn_id"], DEFAULT_TENANT), wall_ms)


def besides(turn: TurnRecord, wall_ms: float) -> Besides:
    """Looks of the observer run beside Act and are no part of the sum."""
    stages = [row for row in turn.stages if row.stage != "observe"]
    return Besides([_besides_model(row) for row in stages], wall_ms - sum(row.ms for row in stages))


def _besides_model(row: StageRecord) -> float:
    return row.ms - row.queue_ms - row.prefill_ms - row.decode_ms


# -- a whole turn, warm and cold


async def full_turn_rows(home: Path, model: Path, said_before: int, tokens: int, *settings: str) -> list[Row]:
    """One turn on a model that has read nothing, then each of its calls in a fresh worker of its own.

    What a start costs once, vocabulary and forms, is paid before and told in a row of its own.
    """
    async with open_house(home, model, made_turns(said_before), *settings) as house:
        forms_s = await house.make_forms(tokens)
        turn, seconds = await house.say(made_questions(1)[0], tokens)
        asked = in_order(turn, house.pool.asked)
        cold = [Cold(one, *await house.cold(one)) for one in asked]
    forms_row = Row(what="making the forms of its replies, once after a start", value=forms_s, unit="s")
    return [*turn_rows(turn, seconds, cold), forms_row]


def in_order(turn: TurnRecord, asked: Sequence[Asked]) -> list[Asked]:
    """The calls as GCP 6 has them; of several looks one that ended, the others cost time and count for nothing.

    There is no look when the text ended before one was asked for. Raises Unavailable when the turn took another course:
    then it shows nothing.
    """
    course = [row.stage for row in turn.stages if row.stage != "observe"]
    found = {stage: [one for one in asked if one.stage == stage] for stage in STAGES}
    if course != list(CHAIN) or any(len(found[stage]) != 1 for stage in CHAIN):
        went = ", ".join(f"{row.stage} {row.verdict}" for row in turn.stages)
        raise Unavailable(f"the turn under measurement did not go its usual course ({went}); run it again")
    return [next((one for one in calls if one.reply is not None), calls[0]) for calls in found.values() if calls]


def turn_rows(turn: TurnRecord, seconds: float, cold: Sequence[Cold]) -> list[Row]:
    """The turn beside its cold calls, and what each call had read before.

    A look is shown less than the whole packet. So it is put beside the very calls, and beside as many of a whole one.
    """
    records: Mapping[str, StageRecord] = {row.stage: row for row in turn.stages}
    spent = sum(one.seconds for one in cold)
    stages = [one for one in cold if one.asked.stage in CHAIN]
    whole = sum(one.seconds for one in stages) / len(stages) * len(STAGES)
    wrote = " + ".join(str(one.reply.tokens) for one in stages)
    what = f"a full turn, a packet of {stages[0].reply.prompt_tokens} tokens, {wrote} written, one worker"
    rows = [
        Row(what=what, value=seconds, unit="s"),
        Row(what=f"  the same {len(cold)} calls cold, each in a fresh worker", value=spent, unit="s"),
        Row(what="  ratio", value=seconds / spent, unit="ratio", aim=_RATIO_AIM),
        Row(what="  ratio to five of them with the whole packet", value=seconds / whole, unit="ratio", aim=_RATIO_AIM),
    ]
    for one in cold:
        rows += _call_rows(one, records.get(one.asked.stage))
    return rows


def _call_rows(one: Cold, record: StageRecord | None) -> list[Row]:
    """`record` is None for a look that was broken off, for the text had ended: how much it had read is not known."""
    reply, name = one.asked.reply, one.asked.stage
    wrote = "broken off when Act ended" if reply is None else f"wrote {reply.tokens}"
    cached = 0 if record is None else record.cached_tokens
    return [
        Row(what=f"  {name}, {wrote}: read before", value=cached, unit=f"of {one.reply.prompt_tokens} tokens"),
        Row(what="    the call", value=one.asked.seconds, unit="s"),
        Row(what=f"    the same cold, wrote {one.reply.tokens}", value=one.seconds, unit="s"),
    ]
