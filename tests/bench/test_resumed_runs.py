"""A seeded sample of the killed runs; the bench takes 200."""

import json
import subprocess
import sys


def test_runs_that_are_killed_come_to_the_same_end_with_no_step_done_twice() -> None:
    command = [sys.executable, "-m", "tests.bench.resumed_runs", "6", "7"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=300).stdout)
    assert (told["other_result"], told["done_again"], told["missing"]) == (0, 0, 0)
    assert told["kills"] >= 3
    assert (told["steps"], told["model_calls"]) > (10, 3)
