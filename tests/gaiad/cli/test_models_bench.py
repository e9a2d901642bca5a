import json

import pytest

from gaiad.cli.main import program, run
from tests.makers.gguf_files import truncated, write_tiny_bert
from tests.makers.llama_files import write_tiny_llama


@pytest.fixture(autouse=True)
def one_round(monkeypatch):
    monkeypatch.setattr("gaiad.bench.model._ROUNDS", 1)


def test_bench_shows_rates_at_four_numbers_of_sequences(tmp_path, capsys):
    path = write_tiny_llama(tmp_path / "model.gguf")
    assert run(program, "gaiad", ["models", "bench", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == str(path)
    assert len(found["fingerprint"]) == 64
    assert [rates["sequences"] for rates in found["rates"]] == [1, 2, 4, 8]
    for rates in found["rates"]:
        assert rates["prefill"] > 0
        assert rates["decode"] > 0


@pytest.mark.parametrize("make", ["none", "random", "truncated", "bert"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_bad_file_is_one_line_and_exit_1(tmp_path, capfd, make, options):
    path = tmp_path / "bad.gguf"
    if make == "random":
        path.write_bytes(bytes(range(256)) * 8)
    elif make == "truncated":
        truncated(write_tiny_llama(tmp_path / "whole.gguf"), path, 0.6)
    elif make == "bert":
        write_tiny_bert(path)
    assert run(program, "gaiad", ["models", "bench", *options, str(path)]) == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1, shown.err
    assert str(path) in shown.err


def test_the_table_names_what_it_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gaiad.bench.model.STREAMS", (1, 2))
    path = write_tiny_llama(tmp_path / "model.gguf")
    assert run(program, "gaiad", ["models", "bench", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "flash attention" in shown
    assert [line.split()[0] for line in shown.splitlines()[-2:]] == ["1", "2"]
