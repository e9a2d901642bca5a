"""`gaiad models ls, load, unload, pin` against a daemon with a small model and one that has no weights."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.cli.main import program, run
from gaiad.cli.models import models_text
from gaiad.wire.status import ModelStatus
from tests.makers.file_server import put_on_hub, serving
from tests.makers.llama_files import write_tiny_llama

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    folder = tmp_path_factory.mktemp("models")
    tiny = write_tiny_llama(folder / "tiny.gguf")
    settings = (f'models.known={{tiny = {{kind = "gguf", path = "{tiny}"}}}}', "roles.prime=tiny", "models.threads=1")
    with running_daemon(*settings, "embedder.kind=none", home=folder / "home") as running:
        yield running


@pytest.fixture
def shell(daemon: BenchDaemon, capsys: pytest.CaptureFixture[str]) -> Shell:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(program, "gaiad", ["models", *arguments, "--home", str(daemon.home)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_hub_name_is_fetched_checked_and_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_tiny_llama(tmp_path / "tiny.gguf").read_bytes()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GAIAD_MODELS", str(tmp_path / "models"))
    with serving() as hub, running_daemon("embedder.kind=none", home=tmp_path / "home") as daemon:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        put_on_hub(hub, hub, "o/r-GGUF", {"drawn-Q4_K_M.gguf": data})
        (stored,) = (served for path, served in hub.files.items() if path.startswith("/store/"))
        use = ["models", "use", "o/r-GGUF:Q4_K_M", "--role", "lite", "--home", str(daemon.home)]
        stored.data = data[:-1] + bytes([data[-1] ^ 1])
        assert run(program, "gaiad", use) == 1
        assert "SHA-256" in capsys.readouterr().err
        assert not (Path(daemon.home) / "config.toml").exists()
        stored.data = data
        assert run(program, "gaiad", use) == 0
        assert capsys.readouterr().out.startswith("lite: drawn-Q4_K_M (gguf), ")
        assert next(row.name for row in daemon.client.models() if row.role == "lite") == "drawn-Q4_K_M"
    assert (tmp_path / "models" / "drawn-Q4_K_M.gguf").read_bytes() == data


def line_of(text: str, role: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(role))


def test_load_unload_and_pin_show_what_came_of_them(shell: Shell, daemon: BenchDaemon) -> None:
    code, out, _ = shell("load", "prime")
    assert code == 0
    assert "ready" in line_of(out, "prime")
    assert "0/4" in line_of(out, "prime")
    assert "ready, pinned" in line_of(shell("pin", "tiny")[1], "prime")
    assert json.loads((Path(daemon.home) / "pins.json").read_bytes()) == ["tiny"]
    assert "pinned" not in line_of(shell("pin", "--off", "tiny")[1], "prime")
    asleep = line_of(shell("unload", "prime")[1], "prime")
    assert "sleeping" in asleep
    assert "unloaded by request" in asleep
    code, out, _ = shell("load", "tokenizer")
    assert (code, "tokenizer" in out) == (0, True)


def test_ls_as_json_has_every_field_of_the_contract(shell: Shell) -> None:
    code, out, error = shell("ls", "--json")
    assert (code, error) == (0, "")
    rows = json.loads(out)
    assert [row["role"] for row in rows][:3] == ["prime", "lite", "codemind"]
    assert all(list(row) == list(ModelStatus.__struct_fields__) for row in rows)
    assert {row["state"] for row in rows} <= {"ready", "sleeping", "inactive", "failed"}


def test_what_cannot_be_done_is_one_line_and_its_exit(shell: Shell) -> None:
    for arguments, exit_code, words in (
        (("load", "nobody"), 3, "no model is called 'nobody'; there are extractive, tiny"),
        (("unload", "lite"), 1, "nothing to unload"),
        (("pin", "codemind"), 1, "nothing to pin"),
    ):
        code, out, error = shell(*arguments)
        assert (code, out, len(error.splitlines())) == (exit_code, "", 1)
        assert words in error


STARTING = ModelStatus(
    role="prime",
    name="qwen",
    kind="gguf",
    path_or_url="/m/qwen.gguf",
    state="starting",
    pid=7,
    reason="loading the model",
    slots=4,
    running=2,
    waiting=1,
)


def test_a_model_that_loads_is_inactive_as_the_help_says(api, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["GET /models"] = {"models": [msgspec.to_builtins(STARTING)]}
    assert run(program, "gaiad", ["models", "ls", "--json", "--home", str(api.home)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "inactive"


def test_the_table_shows_the_same_state_and_who_waits() -> None:
    shown = line_of(models_text([STARTING]), "prime").split()
    assert shown[:6] == ["prime", "qwen", "gguf", "inactive", "2/4", "+1"]
    assert "starting" not in shown
