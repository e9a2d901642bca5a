import os
import signal

import pytest

from gaiad.models.child import generate_context
from gaiad.models.child.generate_context import TRIAL_BATCH, TRIAL_CELLS, TRIAL_SEQUENCES, TrialOver, flash_pays
from gaiad.models.child.llama import ModelFileError
from gaiad.models.generator import GeneratorSettings
from tests.gaiad.models.test_generator import request, whole
from tests.makers.waiting import until


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
    ("plain", "flash", "pays"),
    [
        ([9, 1.0, 1.0], [9, 0.8, 0.8], True),
        ([9, 1.0, 1.0], [9, 1.02, 1.02], True),  # noise
        ([9, 1.0, 1.0], [9, 1.2, 1.2], False),
        ([9, 1.0, 7.0], [9, 5.0, 0.8], True),  # the quickest turn of each: others were disturbed
        ([1], [9], True),  # the time was up before there was a turn to compare
        ([1, 1.0], [9], True),
    ],
)
def test_flash_is_used_unless_it_is_clearly_slower(monkeypatch, plain, flash, pays):
    monkeypatch.setattr(generate_context, "_Trial", FixedTrial)
    FixedTrial.closed = 0
    assert flash_pays(lambda on: flash if on else plain, 1, 4) is pays
    assert FixedTrial.closed == 2


def test_a_real_context_is_measured_and_given_back(tiny_llama):
    from gaiad.models.child.llama import AbortFlag, Log, load_model, open_generation_context

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

    assert flash_pays(open_trial, 1, 4) in (True, False)
    assert opened == [False, True]


def test_a_model_that_cannot_have_it_does_without():
    def open_trial(flash):
        raise ModelFileError("not for this model")

    assert flash_pays(open_trial, 1, 4) is False


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
