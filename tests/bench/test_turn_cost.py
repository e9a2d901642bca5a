from gaiad.bench.rows import percentile
from tests.bench.made_session import made_questions, made_turns, write_chat_llama
from tests.bench.turn_cost import Share, _share_rows, assembly_rows, open_assembler


def test_the_made_up_session_is_the_same_every_time_and_no_turn_like_another():
    turns = made_turns(200)
    assert turns == made_turns(200)
    assert turns[0] != made_turns(1, seed=6)[0]
    assert len({turn.answer for turn in turns}) == len({turn.turn_id for turn in turns}) == 200


async def test_packets_of_a_growing_session_are_timed_without_a_look_into_the_archive(tmp_path):
    model = write_chat_llama(tmp_path / "chat.gguf")
    async with open_assembler(tmp_path / "home", model, with_embedder=False) as bench:
        rows = await assembly_rows(bench, made_turns(6))
        assert [row.unit for row in rows] == ["ms p50", "ms p95", "ms"]
        assert all(row.value > 0 for row in rows)
        prepared, _ = await bench.prepare(made_questions(1)[0], made_turns(6), None)
        assert prepared.gathered.found is None
        assert len(prepared.built.packet.history) == 12
        assert bench.overruns == []


def test_shares_are_of_each_turn_and_the_contexts_over_the_settled_ones():
    shares = [Share(100, 0, 0), Share(200, 50, 20), Share(400, 300, 40), Share(400, 380, 120)]
    rows = _share_rows("", ">= 85", shares)
    assert [(row.value, row.aim) for row in rows] == [(25.0, ""), (75.0, ">= 85"), (95.0, ">= 85"), (20.0, "")]


def test_a_percentile_is_one_of_the_values():
    assert percentile([1.0]) == 1.0
    assert percentile([float(value) for value in range(100)]) == 95.0
