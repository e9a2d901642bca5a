"""A home for a daemon with the bot, whose library talks to the stand-in of Discord in place of Discord."""

from pathlib import Path

import pytest

from tests.makers.discord_server import ALLOWED, CHANNEL, SERVER, TOKEN, DiscordServer
from tests.makers.scripted_home import scripted_settings

CONFIG = """
[council]
depth = "fast"
[embedder]
kind = "none"
[discord]
enabled = true
token_file = "{folder}/token"
servers = ["{server}"]
users = ["{user}"]
channels = ["{channel}"]
"""
REDIRECTED = """
import sys
if "serve" in sys.orig_argv:
    import yarl
    from discord.gateway import DiscordWebSocket
    from discord.http import Route
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL("ws://127.0.0.1:{port}/gateway/")
    Route.BASE = "http://127.0.0.1:{port}/api"
"""


def discord_home(
    folder: Path, server: DiscordServer, monkeypatch: pytest.MonkeyPatch, script: str, more: str = ""
) -> Path:
    """`script` is what the model says, `more` further settings. The redirection is the process's PYTHONPATH."""
    (folder / "script.toml").write_text(script)
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    home = folder / "h"
    home.mkdir(mode=0o700)
    settings = CONFIG.format(folder=folder, server=SERVER, user=ALLOWED, channel=CHANNEL)
    (home / "config.toml").write_text(scripted_settings(folder / "script.toml", ["prime"]) + settings + more)
    redirect = folder / "redirect"
    redirect.mkdir()
    (redirect / "sitecustomize.py").write_text(REDIRECTED.format(port=server.port))
    monkeypatch.setenv("PYTHONPATH", str(redirect))
    return home
