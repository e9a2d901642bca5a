"""Who may speak to the bot, and a token that only its owner can read."""

import os
import subprocess
import sys

import pytest

from gaiad.base.config import load_config
from gaiad.base.errors import ConfigError
from router.channels.discord import AllowList, DiscordChannel, allow_list, read_settings, read_token

SERVER, PLACE, ONE, OTHER = 100000000000000001, 200000000000000001, 110000000000000001, 120000000000000001
LISTS = {"servers": f'["{SERVER}"]', "users": f'["{ONE}", "{OTHER}"]', "channels": f'["{PLACE}"]'}


def settings(**changed):
    values = {"enabled": "true", "token_env": "THE_TOKEN", **LISTS} | changed
    assignments = [f"discord.{key}={value}" for key, value in values.items()]
    return read_settings(load_config(environment={}, assignments=assignments).channels["discord"])


def test_server_user_and_place_all_have_to_fit():
    allowed = allow_list(settings())
    assert allowed.knows(SERVER, ONE)
    assert not allowed.knows(SERVER + 1, ONE)
    assert not allowed.knows(SERVER, OTHER + 1)
    assert allowed.is_place(PLACE, 0)
    assert allowed.is_place(PLACE + 9, PLACE)
    assert not allowed.is_place(PLACE + 9, PLACE + 1)


def test_a_channel_that_stands_in_no_other_is_in_no_list():
    assert not AllowList(servers=frozenset(), users=frozenset(), channels=frozenset({0})).is_place(777, 0)


@pytest.mark.parametrize("missing", LISTS)
def test_without_an_allow_list_the_settings_are_refused(missing):
    with pytest.raises(ConfigError, match=rf"discord.{missing} is empty: the bot does not start without"):
        settings(**{missing: "[]"})


@pytest.mark.parametrize("name", ["jane", "0", "1234", "0" * 18, "1" * 21, "１２３４５６７８９０１２３４５６７８"])
def test_what_is_no_id_of_discords_is_refused(name):
    with pytest.raises(ConfigError, match=rf"discord.channels = '{name}': write Discord's id, 15 to 20 digits"):
        settings(channels=f'["{name}"]')


@pytest.mark.parametrize("changed", [{"token_env": ""}, {"token_file": "/tmp/token"}])
def test_one_place_for_the_token_is_named(changed):
    with pytest.raises(ConfigError, match=r"token_env or discord.token_file, one of them"):
        settings(**changed)


def test_the_token_comes_from_the_variable():
    assert read_token(settings(), {"THE_TOKEN": " abc.def-1_2\n"}) == "abc.def-1_2"
    with pytest.raises(ConfigError, match=r"variable THE_TOKEN is not set"):
        read_token(settings(), {})


def test_the_token_comes_from_a_file_that_only_its_owner_can_read(tmp_path):
    file = tmp_path / "token"
    file.write_text("abc.def\n")
    file.chmod(0o640)
    config = settings(token_env="", token_file=str(file))
    with pytest.raises(ConfigError, match=r"others may read it \(mode 0640\); run: chmod 600"):
        read_token(config, {})
    file.chmod(0o600)
    assert read_token(config, {}) == "abc.def"
    file.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(config, {})


def test_what_is_no_token_is_not_repeated_in_the_message(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read_token(settings(), {"THE_TOKEN": "two secret words"})
    assert "secret" not in caught.value.message


def test_a_folder_and_a_pipe_are_no_token(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(settings(token_env="", token_file=str(tmp_path)), {})
    with pytest.raises(ConfigError, match="is not a file"):
        read_token(settings(token_env="", token_file=os.devnull), {})


def test_the_library_is_not_loaded_until_the_channel_is_enabled():
    code = "import sys, gaiad.daemon.daemon, gaiad.service.service; print('discord' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "router.channels.discord_client", raising=False)
    monkeypatch.setitem(sys.modules, "discord", None)
    monkeypatch.delattr("router.channels.discord_client", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'gaiad\[discord\]'"):
        DiscordChannel(settings(), {"THE_TOKEN": "abc"})
