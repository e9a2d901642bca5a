import signal
import sys

import pytest

from gaiad.models import prove
from gaiad.models.supervision.process import describe_exit


def test_the_build_in_use_decodes_q8_0():
    assert prove.prove() == ""


@pytest.mark.parametrize(("name", "remedy"), [("SIGILL", "run `make`"), ("SIGSEGV", "verify the file")])
def test_a_child_that_dies_is_one_line_with_signal_and_remedy(name, remedy):
    code = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    problem = prove._decode_in_child([sys.executable, "-c", code], 30.0)
    assert name in problem
    assert remedy in problem
    assert "\n" not in problem


def test_a_child_that_fails_or_hangs_says_so():
    assert "its last words: RuntimeError: nonsense" in prove._decode_in_child(
        [sys.executable, "-c", "raise RuntimeError('nonsense')"], 30.0
    )
    assert "more than 0.2 s" in prove._decode_in_child([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)


def test_exits_in_words():
    assert describe_exit(3) == "the worker ended with status 3"
    assert "SIGKILL" in describe_exit(-signal.SIGKILL)
    assert "memory" in describe_exit(-signal.SIGKILL)
