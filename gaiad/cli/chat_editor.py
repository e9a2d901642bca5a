"""The line editor of `gaiad chat`: history, several lines, pastes in one piece, completion of its commands.

The one module that imports prompt_toolkit, and only when somebody talks on a terminal, for that import takes as long as
all the rest of a start.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import DummyOutput, Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.shortcuts import CompleteStyle

PROMPT = "> "
_CONTINUED = "  "
_ENTRY = b"\n# "  # begins an entry of the history file
_LARGEST_HISTORY_BYTES = 1024 * 1024

Complete = Callable[[str], list[str]]
"""From a line up to the cursor to the whole words that may end it."""


class Editor:
    """Reads what the person says. `trouble` is why the history is not kept, "" when it is."""

    def __init__(self, history: Path, complete: Complete) -> None:
        self._history = _open_history(history)
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=self._history,
            multiline=True,
            prompt_continuation=_CONTINUED,
            key_bindings=_keys(),
            completer=_Words(complete),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            enable_suspend=True,
            enable_open_in_editor=True,
            search_ignore_case=True,
            output=_output(),
        )

    @property
    def trouble(self) -> str:
        return self._history.trouble if isinstance(self._history, _History | _Forgotten) else ""

    def read(self, draft: str = "") -> str:
        """What was typed, beginning with `draft`. Raises EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C.

        Raises SystemExit when the program gets a signal to end; the terminal is as it was then.
        """
        before = signal.getsignal(signal.SIGTERM)
        try:
            return self._session.prompt(default=draft, pre_run=self._heed_end)
        finally:
            signal.signal(signal.SIGTERM, before)

    def _heed_end(self) -> None:
        """An exception out of the midst of the event loop would be taken for a defect in it."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end)

    def _end(self) -> None:
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=SystemExit(128 + signal.SIGTERM))


def _output() -> Output:
    """The terminal: stdout, and stderr when the answers go into a file."""
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            return create_output(stream)
    return DummyOutput()


def _keys() -> KeyBindings:
    """Enter sends, unless the line ends in a backslash; Alt-Enter begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


class _Words(Completer):
    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        begun = line.rpartition(" ")[2]
        for word in self._complete(line):
            yield Completion(word, start_position=-len(begun))


class _Forgotten(InMemoryHistory):
    """For this conversation only."""

    def __init__(self, trouble: str) -> None:
        super().__init__()
        self.trouble = trouble


class _History(FileHistory):
    """For the next ones too. A disk that is full keeps nobody from talking."""

    trouble = ""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError as error:
            self.trouble = _not_kept(Path(str(self.filename)), error)


def _open_history(path: Path) -> History:
    """The file's, nobody else may read it; it is cut to its newer half when it has grown too long."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            os.fchmod(descriptor, 0o600)
            if os.fstat(descriptor).st_size > _LARGEST_HISTORY_BYTES:
                kept = newer_half(file.read())
                file.seek(0)
                file.write(kept)
                file.truncate()
    except OSError as error:
        return _Forgotten(_not_kept(path, error))
    return _History(path)


def newer_half(content: bytes) -> bytes:
    """Whole entries of a history file, the newer ones, half of its bytes at most."""
    at = content.find(_ENTRY, len(content) // 2)
    return content[at:] if at >= 0 else b""


def _not_kept(path: Path, error: OSError) -> str:
    return f"{path}: what you say is not kept for the next time ({error.strerror})"
