"""The terminal while an answer comes: keys wait unseen for the next prompt, and Ctrl-C ends the answer alone.

Without this, what is typed ahead would be written into the middle of the answer. Between answers the line editor has
the terminal.
"""

import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_INPUT_FLAGS, _LOCAL_FLAGS = 0, 3  # places in what tcgetattr answers with


@contextmanager
def undisturbed() -> Iterator[None]:
    """A Ctrl-C that comes late does not end the program, and whoever ends it leaves a terminal that shows its keys."""
    before = [signal.signal(signal.SIGINT, _ignore), signal.signal(signal.SIGTERM, _leave)]
    try:
        yield
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """The first Ctrl-C raises KeyboardInterrupt, more do nothing; keys are kept for whoever reads next."""
    pressed = False

    def once(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if not pressed:
            pressed = True
            raise KeyboardInterrupt

    attributes = _silenced()
    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        pressed = True  # too late for this block
        signal.signal(signal.SIGINT, before)
        if attributes:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, attributes)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler and not SIG_IGN, which children would inherit."""


def _leave(number: int, _frame: FrameType | None) -> None:
    """As the signal would end it, on the way through what puts the terminal back."""
    raise SystemExit(128 + number)


def _silenced() -> list[Any]:
    """Keys are neither shown nor put together to lines; Ctrl-C and Ctrl-Z work. What to set back; [] when nothing."""
    if not sys.stdin.isatty():
        return []
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[_INPUT_FLAGS] &= ~termios.ICRNL
    quiet[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    return before
