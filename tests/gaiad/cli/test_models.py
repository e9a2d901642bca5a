import json

import pytest

from gaiad.cli.main import program, run
from tests.makers.llama_files import write_tiny_llama


def test_info_prints_what_the_file_says(tmp_path, capsys):
    path = write_tiny_llama(tmp_path / "model.gguf")
    assert run(program, "gaiad", ["models", "info", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = "path arch name parameters quantization context vocab chat_template memory_bytes fingerprint"
    assert list(found) == keys.split()
    assert run(program, "gaiad", ["models", "info", str(path)]) == 0
    assert "tiny-llama" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, b"", b"not a model", b"GGUF" + bytes(100)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_bad_file_is_one_line_and_exit_1(tmp_path, capsys, content, options):
    path = tmp_path / "bad.gguf"
    if content is not None:
        path.write_bytes(content)
    assert run(program, "gaiad", ["models", "info", *options, str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert str(path) in shown.err
