"""`gaiad models pull`: fetch a model, and say how to use it. No daemon is asked."""

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, print_result
from gaiad.cli.output import counted, duration, one_line, plain, size, terminal_width
from gaiad.cli.progress import Bar

if TYPE_CHECKING:
    from gaiad.models.pulling.pull import Pulled

_BAR_WIDTH = 24
_SHOW_EVERY_S = 0.1
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@click.command(
    cls=Verb,
    example="""
        gaiad models pull ~/Downloads/qwen.gguf --as qwen
        gaiad models pull https://example.org/qwen-q8_0.gguf --sha256 9f86d0...
        gaiad models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
    """,
)
@click.argument("source")
@click.option("--as", "name", default="", metavar="NAME", help="The model's name here. Default: the file's own.")
@click.option("--sha256", default="", metavar="HEX", help="What the file has to be; anything else is refused.")
@click.option("--file", default="", metavar="NAME", help="Which file of a hub name: a name, a pattern, or Q4_K_M.")
@click.option("--revision", default="", metavar="REV", help="Branch, tag or commit of a hub name. Default: main.")
@click.option(
    "--force", is_flag=True, help="Download again, and take the name of a file that exists; that one gets another name."
)
def pull(source: str, name: str, sha256: str, file: str, revision: str, force: bool) -> None:
    """Fetch a GGUF into your models folder: from a path, an address, or the hub.

    SOURCE is a path (linked or copied, never moved), an http(s) address, or a hub name: owner/repo, with :FILE or
    :Q4_K_M when it holds several models. An interrupted download continues where it stopped when the same command runs
    again. The folder is GAIAD_MODELS, else gaiad/models in your data directory; --home has no effect here.
    """
    from gaiad.models.pulling.pull import Wish, pull

    wish = Wish(source=source, name=name, sha256=sha256, file=file, revision=revision, force=force)
    with Bar("") as bar:
        pulled = pull(wish, os.environ, Watcher(bar))
    print_result(pulled, plain(pulled_text(pulled)))


def pulled_text(pulled: "Pulled") -> str:
    """What is here now, and how to use it."""
    new = [file.how for file in pulled.files if file.how != "present"]
    what = ", ".join(dict.fromkeys(new)) if new else "is already here; nothing was downloaded"
    parts = f" in {counted(len(pulled.files), 'file')}" if len(pulled.files) > 1 else ""
    lines = [
        f"{pulled.path}: {what}",
        *(f"{'sha-256':<10} {file.sha256}  {Path(file.path).name}" for file in pulled.files),
        f"{'size':<10} {size(pulled.bytes)}{parts}",
        "",
        "Use it now:",
        f"    gaiad serve --set roles.lite={_shell(pulled.path)}",
        "or for good, in config.toml:",
        *(f"    {line}" for line in settings_text(pulled.name, pulled.path).splitlines()),
    ]
    return "\n".join(lines)


def settings_text(name: str, path: str) -> str:
    """The lines of config.toml that make a model known under its name, and a role that uses it."""
    key = name if _BARE_KEY.fullmatch(name) else _toml(name)
    return f'[models.known.{key}]\nkind = "gguf"\npath = {_toml(path)}\n\n[roles]\nlite = {_toml(name)}'


def _toml(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's too."""
    import json

    return json.dumps(text, ensure_ascii=False)


def _shell(text: str) -> str:
    import shlex

    return shlex.quote(text)


def bytes_text(label: str, done: int, total: int, came: int, elapsed_s: float) -> str:
    """One line: label, bar, sizes, bytes a second and the time left at that rate; `came` in `elapsed_s`."""
    rate = came / elapsed_s if elapsed_s > 0 else 0.0
    if total <= 0:
        return f"{label}: {size(done)}  {size(rate)}/s"
    filled = _BAR_WIDTH * min(done, total) // total
    left = f", {duration((total - done) / rate)} left" if rate and done < total else ""
    return f"{label} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {size(done)} of {size(total)}  {size(rate)}/s{left}"


class Watcher:
    """Lines on stderr, and between them, on a terminal, a bar of bytes; again for every label."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._label = ""
        self._first = 0
        self._since = self._next = 0.0

    def say(self, line: str) -> None:
        self._bar.clear()
        print(one_line(line), file=sys.stderr)

    def show(self, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        if label != self._label or done < self._first:
            self._label, self._first, self._since = label, done, now
        if now >= self._next:
            self._next = now + _SHOW_EVERY_S
            text = bytes_text(plain(label), done, total, done - self._first, now - self._since)
            self._bar.write(text[: terminal_width()])
