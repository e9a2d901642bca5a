import os
import signal

import pytest

from gaiad.models import flash_choice
from gaiad.models.flash_choice import TRIAL_BATCH, TRIAL_CELLS, TRIAL_SEQUENCES, TrialOver, flash_is_faster
from gaiad.models.generator import GeneratorSettings
from tests.gaiad.models.test_generator import request, until, whole


class FixedTrial:
    """A context whose turns cost what the test says; the first one is the warm-up."""

    closed = 0

    def __init__(self, costs, token, sequences):
        self._costs = iter(costs)

    def touch(self):
        pass

    def cost_s(self, end):
        try:
            return next(self._costs)
        except StopIteration:
            raise TrialOver from None

    def close(self):
        FixedTrial.closed += 1


@pytest.mark.parametrize(
    ("plain", "flash", "faster"),
    [
        ([9, 1.0, 1.0], [9, 0.8, 0.8], True),
        ([9, 1.0, 1.0], [9, 0.98, 0.98], False),  # noise
        ([9, 1.0, 1.0], [9, 1.5, 1.5], False),
        ([9, 1.0, 7.0], [9, 5.0, 0.8], True),  # the quickest turn of each: others were disturbed
        ([9], [1], False),  # the time was up before there was a turn to compare
        ([9, 1.0], [1], False),
    ],
)
def test_flash_is_chosen_when_it_is_clearly_faster(monkeypatch, plain, flash, faster):
    monkeypatch.setattr(flash_choice, "_Trial", FixedTrial)
    FixedTrial.closed = 0
    assert flash_is_faster(lambda on: flash if on else plain, 1, 4) is faster
    assert FixedTrial.closed == 2


def test_a_real_context_is_measured_and_given_back(tiny_llama):
    from gaiad.models.llama import AbortFlag, Log, load_model, open_generation_context

    model = load_model(tiny_llama, Log())
    opened = []

    def open_trial(flash):
        opened.append(flash)
        return open_generation_context(
            model,
            cells=TRIAL_CELLS,
            batch=TRIAL_BATCH,
            sequences=4 + TRIAL_SEQUENCES,
            threads=1,
            flash=flash,
            abort=AbortFlag(),
        )

    assert flash_is_faster(open_trial, 1, 4) in (True, False)
    assert opened == [False, True]


@pytest.mark.parametrize("flash", ["on", "off"])
async def test_either_attention_makes_text(open_generator, tiny_llama, flash):
    generator = await open_generator(tiny_llama, flash=flash)
    assert generator.flash == flash
    assert (await whole(generator, request())).tokens == 24


async def test_what_was_measured_once_is_kept_for_later_lives(open_generator, tiny_llama):
    generator = await open_generator(tiny_llama, flash="auto")
    assert GeneratorSettings().flash == "auto"
    settled = generator.flash
    assert settled in ("on", "off")
    pid = generator.status().pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: generator.status().pid not in (0, pid) and generator.status().state == "ready")
    assert generator.flash == settled
    assert (await whole(generator, request())).tokens == 24
