"""A program on a pseudo-terminal of its own, as a person has it: keys, sizes, Ctrl-C, and what comes to be seen."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from tests.makers.screen import ShownScreen

PATIENCE_S = 60.0


class Terminal:
    """`raw` is everything that came, `seen` what a screen shows after that."""

    def __init__(self, command, rows=40, columns=100, stdout=None, **environment):
        self._ours, theirs = pty.openpty()
        self._screen = ShownScreen(columns)
        self.resize(rows, columns)
        own = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        own |= {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environment}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=stdout or theirs,
            stderr=theirs,
            env=own,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.raw = ""
        self._read_to = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(10)
        os.close(self._ours)

    @property
    def seen(self):
        return self._screen.text

    def press(self, keys):
        os.write(self._ours, keys.encode())

    def resize(self, rows, columns):
        self._screen.columns = columns
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self, text):
        """What was seen since the last wait, up to and with `text`."""
        deadline = time.monotonic() + PATIENCE_S
        while (at := self.seen.find(text, self._read_to)) < 0:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen[self._read_to :]!r}"
            assert self._read(0.1), f"it ended without {text!r}: {self.seen[self._read_to :]!r}"
        before, self._read_to = self._read_to, at + len(text)
        return self.seen[before : self._read_to]

    def await_passing(self, text):
        """Until `text` was there, also on a line that is taken away again; the next wait begins where it would have."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.raw:
            assert time.monotonic() < deadline, f"no {text!r} in {self.raw!r}"
            assert self._read(0.1), f"it ended without {text!r}: {self.raw!r}"

    @property
    def echoes(self):
        """Whether keys are shown and put together to lines, as a shell wants it."""
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        return termios.tcgetattr(self._ours)[3] & wanted == wanted

    def say(self, line):
        """A line and Enter, at the prompt that is there or comes."""
        self.wait("> ")
        self.press(f"{line}\r")

    def leave(self):
        """Ctrl-D at the next prompt; the exit code."""
        self.wait("> ")
        self.press("\x04")
        return self.end()

    def end(self):
        """The exit code, once it has ended by itself; all that came is read."""
        while self._read(0.1):
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, wait_s):
        """Whether the other end is still open."""
        if not select.select([self._ours], [], [], wait_s)[0]:
            return self.process.poll() is None
        try:
            came = os.read(self._ours, 65536).decode("utf-8", "replace")
        except OSError:  # the other end is closed
            return False
        self.raw += came
        self._screen.write(came)
        return True
