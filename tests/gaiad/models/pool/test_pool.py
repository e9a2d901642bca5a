import asyncio
import contextlib
import os
import signal
import time

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, assign, load_config
from gaiad.base.errors import Conflict, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.pool.making import ModelDependencies, size_of
from gaiad.models.pool.pool import ModelPool, budget_bytes
from gaiad.models.pool.pooled import Pooled
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.wire.generation import Generated, GenerateRequest, Sampling, Segment

MIB = 2**20
PLENTY = 4096 * MIB


@pytest.fixture
async def open_pool():
    opened = []

    async def open_one(budget, roles=None, known=None, pinned=(), restart_policy=None, **settings):
        config = load_config(environment={})
        chosen = msgspec.structs.replace(config.models, threads=1, **settings)
        named, models = assign(msgspec.structs.replace(config.roles, **(roles or {})), known or {})
        clock = SystemClock("UTC")
        dependencies = ModelDependencies(
            settings=chosen, clock=clock, tokenizer_process=TokenWorker(clock, restart_policy), environment=os.environ
        )
        pool = ModelPool(named, [Pooled(n, m, pinned=n in pinned) for n, m in models.items()], dependencies, budget)
        opened.append(pool)
        await pool.start()
        return pool

    yield open_one
    for pool in opened:
        await pool.close()


def gguf(path, **more):
    return ModelConfig(kind="gguf", path=str(path), **more)


def row(pool, name):
    return next(row for row in pool.statuses() if row.name == name)


async def ask(pool, name, tokens=4, call=None):
    request = GenerateRequest(segments=[Segment("Once")], max_tokens=tokens, seed=1, sampling=Sampling())
    pieces = [piece async for piece in pool.generate(name, request, call or RequestContext())]
    assert isinstance(pieces[-1], Generated)
    return pieces[-1]


async def test_roles_that_share_a_file_share_its_worker(open_pool, tiny_llama):
    pool = await open_pool(PLENTY, {"prime": "a", "lite": "a"}, {"a": gguf(tiny_llama)})
    assert (await ask(pool, pool.name_of(role="prime"))).tokens == 4
    assert (await ask(pool, pool.name_of(role="lite"))).tokens == 4
    rows = {row.role: row for row in pool.statuses()}
    assert rows["prime"].pid == rows["lite"].pid != 0
    assert rows["codemind"].kind == "extractive"
    assert pool.name_with(pool.model("a").fingerprint) == "a"
    assert pool.name_with("of nobody") == ""
    assert rows["prime"].slots == 4
    assert rows["prime"].memory_bytes > 0


async def test_a_model_that_does_not_fit_sleeps_and_wakes_in_the_place_of_an_idle_one(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama), "b": gguf(tiny_llama, context=1024)}
    budget = size_of(known["a"], load_config(environment={}).models).bytes * 3 // 2  # a worker may take more than that
    pool = await open_pool(budget, {"prime": "a", "lite": "b"}, known)
    assert row(pool, "b").state == "sleeping"
    assert "it is loaded when it is asked for" in row(pool, "b").reason
    for name, other in (("a", "b"), ("b", "a"), ("a", "b")):
        assert (await ask(pool, name)).tokens == 4
        assert (row(pool, name).state, row(pool, other).state) == ("ready", "sleeping")


async def test_a_woken_model_sends_an_idle_one_to_sleep_and_says_so(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama), "b": gguf(tiny_llama, context=1024)}
    pool = await open_pool(PLENTY, {"prime": "a", "lite": "b"}, known)
    await ask(pool, "a")
    await ask(pool, "b")
    taken = row(pool, "a").memory_bytes + row(pool, "b").memory_bytes
    pool.resize(taken * 3 // 4)
    await pool.unload("a")
    assert (row(pool, "a").state, row(pool, "a").pid, row(pool, "a").memory_bytes) == ("sleeping", 0, 0)
    assert (await ask(pool, "a")).tokens == 4
    assert row(pool, "a").state == "ready"
    assert (row(pool, "b").state, row(pool, "b").reason) == ("sleeping", "unloaded to make room for a")


async def test_a_pinned_model_stays_and_the_other_is_refused_with_numbers(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama), "b": gguf(tiny_llama, context=1024)}
    pool = await open_pool(PLENTY, {"prime": "a", "lite": "b"}, known, pinned=["a"])
    await ask(pool, "a")
    await ask(pool, "b")
    taken = row(pool, "a").memory_bytes + row(pool, "b").memory_bytes
    pool.resize(taken * 3 // 4)
    await pool.unload("b")
    with pytest.raises(Unavailable, match=r"a \(pinned, [\d,]+ MiB\)"):
        await ask(pool, "b")
    pool.pin("a", False)
    assert (await ask(pool, "b")).tokens == 4


async def test_a_model_that_answers_is_not_unloaded_under_its_caller(open_pool, slow_llama):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(slow_llama)})
    async with contextlib.aclosing(
        pool.generate("a", GenerateRequest(segments=[Segment("x")], max_tokens=2000), RequestContext())
    ) as pieces:
        await anext(pieces)
        assert row(pool, "a").running == 1
        with pytest.raises(Conflict, match="is answering 1"):
            await pool.unload("a")
    await pool.unload("a")
    assert row(pool, "a").state == "sleeping"
    await pool.load("a", RequestContext())
    assert row(pool, "a").state == "ready"


async def test_a_missing_file_costs_its_own_role_only_and_load_tries_it_anew(open_pool, tiny_llama, tmp_path):
    path = tmp_path / "later.gguf"
    pool = await open_pool(PLENTY, {"prime": "a", "lite": str(path)}, {"a": gguf(tiny_llama)})
    assert (await ask(pool, "a")).tokens == 4
    assert row(pool, str(path)).state == "failed"
    assert [reason for reason in pool.degraded() if str(path) in reason]
    with pytest.raises(Unavailable, match=r"later\.gguf"):
        await ask(pool, str(path))
    path.write_bytes(tiny_llama.read_bytes())
    await pool.load(str(path), RequestContext())
    assert (await ask(pool, str(path))).tokens == 4
    assert pool.degraded() == []


async def test_an_idle_model_is_unloaded_after_its_time_and_a_pinned_one_is_not(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama), "b": gguf(tiny_llama, context=1024)}
    pool = await open_pool(PLENTY, {"prime": "a", "lite": "b"}, known, pinned=["b"], sleep_after_s=0.2)
    await asyncio.gather(ask(pool, "a"), ask(pool, "b"))
    end = time.monotonic() + 60
    while row(pool, "a").state != "sleeping":
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    assert "0.2 s without a request" in row(pool, "a").reason
    assert row(pool, "b").state == "ready"
    assert (await ask(pool, "a")).tokens == 4


async def test_unknown_names_are_answered_with_the_known_ones(open_pool):
    pool = await open_pool(PLENTY)
    with pytest.raises(NotFound, match="no role is called 'primus'; there are prime, lite, codemind"):
        pool.name_of(role="primus")
    with pytest.raises(NotFound, match="no model is called 'x'; there are extractive"):
        pool.name_of("x")
    with pytest.raises(Conflict, match="nothing to unload"):
        await pool.unload("extractive")
    with pytest.raises(Conflict, match="nothing to pin"):
        pool.pin("extractive", True)


def test_the_budget_is_as_set_or_six_tenths_of_the_machine():
    assert budget_bytes(100, 1000) == 100 * MIB
    assert budget_bytes(0, 1000) == 600


async def test_whoever_is_chosen_to_sleep_takes_no_request_meanwhile(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama), "b": gguf(tiny_llama, context=1024), "c": gguf(tiny_llama, context=512)}
    pool = await open_pool(PLENTY, {"prime": "a", "lite": "b"}, known)
    await ask(pool, "a")
    await ask(pool, "b")
    pool.resize(size_of(known["c"], load_config(environment={}).models).bytes + MIB)
    first, begun, gate = pool.model("a")._served(), asyncio.Event(), asyncio.Event()
    end = first.close

    async def end_slowly():
        begun.set()
        await gate.wait()
        await end()

    first.close = end_slowly
    asking_c = asyncio.create_task(ask(pool, "c"))
    await begun.wait()
    asking_b = asyncio.create_task(ask(pool, "b"))
    async with asyncio.timeout(30):
        while row(pool, "b").state != "sleeping":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert row(pool, "b").state == "sleeping", (
        "it was chosen to sleep next; a request now would be killed under its caller"
    )
    pool.resize(PLENTY)
    gate.set()
    assert [done.tokens for done in await asyncio.gather(asking_c, asking_b)] == [4, 4]


async def test_a_worker_beside_the_pool_counts_while_it_lives(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama), "b": gguf(tiny_llama, context=1024)}
    pool = await open_pool(PLENTY, {"prime": "a"}, known)
    await ask(pool, "a")
    pool.resize(row(pool, "a").memory_bytes * 3 // 2)
    async with pool.fresh("a") as served:
        assert served.status().pid
        assert row(pool, "a").state == "sleeping"
        with pytest.raises(Unavailable, match="a once more"):
            await ask(pool, "b")
    assert served.status().pid == 0
    assert (await ask(pool, "b")).tokens == 4


async def test_a_model_without_weights_needs_no_room(open_pool, tiny_llama):
    known = {"a": gguf(tiny_llama, pinned=True), "plain": ModelConfig(kind="extractive")}
    pool = await open_pool(PLENTY, {"prime": "a"}, known)
    await ask(pool, "a")
    pool.resize(1)
    async with pool.use("plain", RequestContext()) as served:
        assert served.status().state == "ready"
    assert row(pool, "a").state == "ready"


def test_pins_of_the_settings_are_not_kept_a_second_time(tiny_llama):
    known = {"kept": gguf(tiny_llama, pinned=True), "a": gguf(tiny_llama), "b": gguf(tiny_llama)}
    clock = SystemClock("UTC")
    dependencies = ModelDependencies(
        settings=load_config(environment={}).models,
        clock=clock,
        tokenizer_process=TokenWorker(clock),
        environment=os.environ,
    )
    pool = ModelPool({}, [Pooled(n, m, pinned=n == "b") for n, m in known.items()], dependencies, PLENTY)
    assert pool.pins_with("a", True) == ["a", "b"]
    assert pool.pins_with("kept", True) == ["b"]
    assert pool.pins_with("b", False) == []
    with pytest.raises(Conflict, match=r"models\.known\.kept\.pinned"):
        pool.pin("kept", False)


@pytest.mark.parametrize("load", [lambda pool: pool.load_words(), lambda pool: pool.load("a", RequestContext())])
async def test_tokenizers_that_failed_are_seen_and_started_anew(open_pool, tiny_llama, load):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(tiny_llama)}, restart_policy=RestartPolicy(failures=1))
    await pool.load_words()
    os.kill(row(pool, "").pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        while row(pool, "").state != "failed":  # noqa: ASYNC110  (the end of another process)
            await asyncio.sleep(0.02)
    assert "tokenizer failed" in pool.degraded()[0]
    await load(pool)
    assert pool.degraded() == []
    tokenizer = pool.model("a").tokenizer
    assert await tokenizer.count([[Segment("Once")]], RequestContext()) == [4]


async def test_a_remote_model_shows_how_many_it_is_asked_at_once(open_pool):
    known = {"far": ModelConfig(kind="openai", base_url="http://127.0.0.1:9/v1", model="m", parallel=3)}
    pool = await open_pool(PLENTY, None, known)
    assert (row(pool, "far").slots, row(pool, "far").running, row(pool, "far").waiting) == (3, 0, 0)


async def test_the_council_sees_whether_a_model_has_room_and_when_it_wrote(open_pool, tiny_llama):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(tiny_llama, parallel=1)})
    model = pool.model("a")
    await pool.load("a", RequestContext())
    assert (model.state, model.has_room, model.heard_at) == ("ready", True, None)
    request = GenerateRequest(segments=[Segment("Once")], max_tokens=40, seed=1, sampling=Sampling())
    async with contextlib.aclosing(model.generate(request, RequestContext())) as pieces:
        await anext(pieces)
        assert not model.has_room
        assert model.heard_at is not None
        assert await model.beat(RequestContext()) > 0.0  # past the one that is answered
    assert model.has_room


async def test_a_beat_wakes_nobody_and_waking_does(open_pool, tiny_llama):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(tiny_llama)})
    model = pool.model("a")
    await pool.load("a", RequestContext())
    await pool.unload("a")
    with pytest.raises(Unavailable, match="a: sleeps"):
        await model.beat(RequestContext())
    assert (model.state, model.has_room) == ("sleeping", False)
    await model.wake(RequestContext())
    assert model.state == "ready"
    assert await model.beat(RequestContext()) > 0.0


async def test_a_model_without_weights_beats_and_has_always_room(open_pool):
    model = (await open_pool(PLENTY)).model("extractive")
    assert (model.state, model.has_room) == ("ready", True)
    assert await model.beat(RequestContext()) >= 0.0


async def test_a_server_that_is_not_reached_has_no_beat(open_pool):
    known = {"far": ModelConfig(kind="openai", base_url="http://127.0.0.1:9/v1", model="m")}
    model = (await open_pool(PLENTY, {"prime": "far"}, known)).model("far")
    with pytest.raises(Unavailable, match="far: "):
        await model.beat(RequestContext())


async def test_a_broken_model_has_no_beat_and_says_why(open_pool, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"no model")
    model = (await open_pool(PLENTY, {"prime": "bad"}, {"bad": gguf(tmp_path / "bad.gguf")})).model("bad")
    assert (model.state, model.has_room) == ("failed", False)
    with pytest.raises(Unavailable, match=r"bad\.gguf"):
        await model.beat(RequestContext())


async def test_a_role_gets_another_model_while_the_old_one_still_answers(open_pool, tiny_llama):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(tiny_llama)})
    prime, told = pool.serving("prime"), []
    pool.on_reassign.append(lambda: told.append(sorted(pool.all_models())))
    answer = pool.generate(
        "a", GenerateRequest(segments=[Segment("Once")], max_tokens=40, seed=1, sampling=Sampling()), RequestContext()
    )
    await anext(answer)
    models = {"extractive": ModelConfig(kind="extractive"), "b": gguf(tiny_llama)}
    await pool.reassign({**pool.roles, "prime": "b"}, models)
    assert (prime.name, told) == ("b", [["b", "extractive"]])
    assert [piece async for piece in answer][-1].tokens == 40
    assert (await ask(pool, pool.name_of(role="prime"))).tokens == 4
    with pytest.raises(NotFound):
        pool.name_of("a")


async def test_a_model_that_stays_the_same_is_not_loaded_again(open_pool, tiny_llama):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(tiny_llama)})
    await ask(pool, "a")
    before = row(pool, "a").pid
    await pool.reassign({"prime": "a", "lite": "a", "codemind": "a"}, {"a": gguf(tiny_llama)})
    await ask(pool, "a")
    assert row(pool, "a").pid == before


async def test_a_new_model_whose_file_is_missing_says_so_and_the_others_go_on(open_pool, tiny_llama, tmp_path):
    pool = await open_pool(PLENTY, {"prime": "a"}, {"a": gguf(tiny_llama)})
    models = {"a": gguf(tiny_llama), "b": gguf(tmp_path / "no.gguf")}
    await pool.reassign({"prime": "a", "lite": "b", "codemind": "a"}, models)
    assert row(pool, "b").state == "failed"
    assert "no.gguf" in row(pool, "b").reason
    assert (await ask(pool, "a")).tokens == 4
