from tests.bench.soak import soak
from tests.makers.llama_files import write_tiny_llama


async def test_every_request_ends_though_the_worker_is_killed_between_them(tmp_path):
    found = await soak(write_tiny_llama(tmp_path / "tiny.gguf"), requests=60, kills=2)
    assert sum(found.ends.values()) == 60
    assert found.ends["whole"] > 20
    assert "lost" not in found.ends
    assert found.deaths == 2
    assert found.zombies == 0
