import json
import os
import pty
import signal
import subprocess
import sys
import tomllib
from hashlib import sha256

import pytest

from gaiad.cli.main import program, run
from gaiad.cli.models import bytes_text, settings_text
from tests.makers.file_server import FileServer, put_on_hub, serving
from tests.makers.llama_files import write_tiny_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GAIAD_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "models"


@pytest.fixture
def server(folder):
    with serving() as one:
        yield one


def pull(*arguments):
    return run(program, "gaiad", ["models", "pull", *map(str, arguments)])


def test_a_path_is_pulled_and_its_use_explained(tiny, folder, capsys):
    assert pull(tiny, "--as", "my.model") == 0
    shown = capsys.readouterr()
    path = folder / "my.model.gguf"
    assert sha256(tiny.read_bytes()).hexdigest() in shown.out
    assert f"gaiad serve --set roles.lite={path}" in shown.out
    lines = shown.out.partition("config.toml:\n")[2]
    assert tomllib.loads(lines)["models"]["known"]["my.model"] == {"kind": "gguf", "path": str(path)}
    assert shown.err == ""
    assert pull(tiny, "--as", "my.model") == 0
    assert "is already here" in capsys.readouterr().out


def test_json_says_what_came_from_where(tiny, folder, server, capsys):
    url = server.put("/tiny.gguf", tiny.read_bytes(), '"1"')
    assert pull("--json", url) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["name", "path", "sha256", "bytes", "source", "files"]
    assert (found["path"], found["source"]) == (str(folder / "tiny.gguf"), url)
    assert found["files"][0]["how"] == "downloaded"


def test_a_hub_name_goes_to_the_endpoint_of_the_environment(tiny, folder, server, capsys, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server.base)
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    put_on_hub(server, server, "o/r-GGUF", {"a-Q8_0.gguf": tiny.read_bytes(), "a-F16.gguf": b"?"})
    assert pull("o/r-GGUF") == 2
    assert "2 models fit" in capsys.readouterr().err
    assert pull("--json", "o/r-GGUF", "--file", "Q8_0") == 0
    assert json.loads(capsys.readouterr().out)["name"] == "a-Q8_0"
    assert pull("o/r-GGUF:Q8_0", "--file", "Q8_0") == 2
    assert "one of the two ways" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("absent.gguf",), 2, "no such file"),
        (("{url}/none.gguf",), 3, "404"),
        (("{url}/file",), 2, "--as NAME"),
        (("{tiny}", "--sha256", "12"), 2, "64 hexadecimal digits"),
        (("{tiny}", "--sha256", "0" * 64), 1, "wanted is 000"),
        (("{tiny}", "--revision", "main"), 2, "for hub names"),
        (("{tiny}", "--as", "../x"), 2, "--as ../x"),
    ],
)
def test_what_cannot_be_is_one_line_with_its_exit_code(tiny, folder, server, capsys, arguments, code, says):
    assert pull(*(text.format(url=server.base, tiny=tiny) for text in arguments)) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert says in shown.err


def run_on_terminal(server: FileServer, folder, url):
    """The command with a terminal as stderr, until 40 kB have gone out."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gaiad.cli.main", "models", "pull", url],
        env={**os.environ, "GAIAD_MODELS": str(folder), "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while b"KiB of 160.4 KiB" not in shown:
        shown += os.read(ours, 4096)
    return process, ours, shown


def test_ctrl_c_keeps_the_part_says_so_and_exits_130(tiny, folder, server):
    server.pace_s = 0.01
    url = server.put("/tiny.gguf", tiny.read_bytes(), '"1"')
    process, ours, shown = run_on_terminal(server, folder, url)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    shown += os.read(ours, 1 << 16)
    os.close(ours)
    assert process.stdout is not None
    process.stdout.close()
    text = shown.decode()
    assert "tiny.gguf [" in text
    assert "are kept in" in text
    assert "Traceback" not in text
    kept = (folder / "tiny.gguf.part").stat().st_size
    server.pace_s = 0.0
    server.seen.clear()
    assert pull(url) == 0
    assert [seen.headers["range"] for seen in server.gets()] == [f"bytes={kept}-"]


def test_the_bar_counts_in_bytes_and_guesses_the_time_left():
    assert bytes_text("m", 50 << 20, 100 << 20, 25 << 20, 5.0) == (
        "m [############............] 50.0 MiB of 100.0 MiB  5.0 MiB/s, 10 s left"
    )
    assert bytes_text("m", 2048, 0, 2048, 0.0) == "m: 2.0 KiB  0 B/s"


def test_settings_are_toml_whatever_the_name():
    for name in ("qwen", "qwen2.5", "9"):
        parsed = tomllib.loads(settings_text(name, '/a "b"/é.gguf'))
        assert parsed == {
            "models": {"known": {name: {"kind": "gguf", "path": '/a "b"/é.gguf'}}},
            "roles": {"lite": name},
        }
