"""A channel is three files: its entry in the table, its section in config.toml, its module; a daemon answers there."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers.scripted_home import scripted_settings
from tests.makers.waiting import until

ROOT = Path(__file__).parents[2]
ENTRY = """
[file_chat]
title = "File"
readers = "others"
section = "file"
blocks = { RESPONSE = "show", VERIFY = "log" }
redaction = ["pii"]
"""
SECTION = """
[file]
enabled = false             # answers lines of a file in another
tenant = "local"            # whose memory it answers from
turns = 1                   # questions at once
timeout_s = 5.0             # for one message
queue = 10                  # messages that may wait
folder = ""                 # has `asked`, a line a question; gets `answered`
"""
MODULE = """
import asyncio
from pathlib import Path

from gaiad.base.channel_ports import IncomingMessage
from router.routing import ChatSettings, convert_settings


class FileSettings(ChatSettings, frozen=True):
    folder: str


def read_settings(values):
    return convert_settings("file", values, FileSettings)


def open_bot(settings, environment):
    return FileBot(Path(settings.folder))


class FileBot:
    name = "file_chat"
    limit = 1000

    def __init__(self, folder):
        self.folder = folder

    async def run(self, heard, note, connected):
        for number, line in enumerate((self.folder / "asked").read_text().splitlines()):
            heard(IncomingMessage(message_id=str(number), address="1", text=line))
        await asyncio.Event().wait()

    def hear_no_more(self):
        pass

    async def show_typing(self, address):
        pass

    def block_messages(self, marker, text, *, quiet):
        return [text]

    def with_sources(self, messages, answer):
        return messages

    async def send(self, parcel):
        with (self.folder / "answered").open("a") as file:
            file.write(parcel.text)
        return "1"

    async def find(self, parcel, known):
        return ""
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The product as it is, but for the channel's three files."""
    tree = tmp_path / "tree"
    changed = ("constants/channels.toml", "router/channels/file.py", "config.toml")
    tree.mkdir()
    for folder in ("", "constants", "router", "router/channels"):
        (tree / folder).mkdir(exist_ok=True)
        for path in (ROOT / folder).iterdir():
            inside = path.relative_to(ROOT)
            if path.name[0] != "." and str(inside) not in (*changed, "constants", "router", "router/channels"):
                (tree / inside).symlink_to(path)
    (tree / changed[0]).write_text((ROOT / changed[0]).read_text() + ENTRY)
    (tree / changed[1]).write_text(MODULE)
    (tree / changed[2]).write_text((ROOT / changed[2]).read_text() + SECTION)
    return tree


def run(tree: Path, home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(home, *words), cwd=tree, env=own(tree, **variables), capture_output=True, text=True)


def command(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "gaiad.cli.main", *words, "--home", str(home)]


def own(tree: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), **variables}


def test_three_files_make_a_channel(tree: Path, tmp_path: Path) -> None:
    home, folder = tmp_path / "h", tmp_path / "folder"
    home.mkdir(mode=0o700)
    folder.mkdir()
    (folder / "asked").write_text("Whom do I ask about the lantern?\n")
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "RESPONSE: Ask jane.doe@example.org about the lantern."\n')
    (home / "config.toml").write_text(
        scripted_settings(tmp_path / "script.toml", ["prime"])
        + f'[embedder]\nkind = "none"\n[council]\ndepth = "fast"\n[file]\nenabled = true\nfolder = "{folder}"\n'
        '[memory]\nexclude = { file_chat = ["secret"] }\n[redaction]\nchannels = { file_chat = ["pii", "policy"] }\n'
    )
    checked = run(tree, home, "config", "check")
    assert checked.returncode == 0, checked.stderr
    answered, log = folder / "answered", tmp_path / "log"
    with log.open("wb") as file:
        serve = command(home, "serve", "--set", "http.port=0")
        daemon = subprocess.Popen(serve, cwd=tree, env=own(tree), stderr=file, stdout=file)
        asyncio.run(until(lambda: daemon.poll() is not None or answered.exists()))
        daemon.terminate()
        daemon.wait()
    assert answered.is_file(), log.read_text()
    assert answered.read_text() == "Ask [e-mail] about the lantern."


def test_its_settings_are_checked_by_its_own_module(tree: Path, tmp_path: Path) -> None:
    done = run(tree, tmp_path, "config", "check", GAIAD_FILE__QUEUE="0")
    assert (done.returncode, "file.queue = 0: give a number from 1" in done.stderr) == (2, True), done.stderr


def test_text_is_routed_to_it_by_its_title(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("PLAN: 1. ask\nRESPONSE: ask a@b.org\n")
    done = run(tree, tmp_path, "route", "--channel", "file", str(tmp_path / "text"))
    assert "RESPONSE to memory (page), file_chat (show)\n  ask [e-mail]" in done.stdout, done.stderr
