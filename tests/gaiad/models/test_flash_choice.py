import os
import signal

import pytest

from gaiad.models.generator import GeneratorSettings
from tests.gaiad.models.test_generator import request, until, whole


@pytest.mark.parametrize("flash", ["on", "off"])
async def test_either_attention_makes_text(open_generator, tiny_llama, flash):
    generator = await open_generator(tiny_llama, flash=flash)
    assert (await whole(generator, request())).tokens == 24


async def test_what_was_measured_once_is_kept_for_later_lives(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, flash="auto")
    assert GeneratorSettings().flash == "auto"
    settled = generator._supervisor._load.flash
    assert settled in ("on", "off")
    pid = generator.status().pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: generator.status().pid not in (0, pid) and generator.status().state == "ready")
    assert generator._supervisor._load.flash == settled
    assert (await whole(generator, request())).tokens == 24
