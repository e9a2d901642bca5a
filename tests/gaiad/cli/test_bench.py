"""`gaiad bench`: an option of another measure is refused, and says whose it is."""

import pytest

from gaiad.cli.main import program, run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", "--rounds", "3"], "--rounds belongs to `gaiad bench conversation`"),
        (["conversation", "--ablate"], "--ablate belongs to `gaiad bench retrieval`"),
        (["conversation", "prompts.toml"], "write it as: gaiad bench conversation"),
        (["answers", "--loop", "talks.json"], "--loop belongs to `gaiad bench retrieval`"),
        (["answers", "--model", "m.gguf", "talks.json"], "--model belongs to `gaiad bench conversation`"),
        (["retrieval", "--depth", "full", "--format", "beir", "x"], "--depth belongs to `gaiad bench conversation`"),
        (["ingest", "no-such-measure"], "unknown measure; use one of embedding, ingest, start, search"),
    ],
)
def test_wrong_options_are_refused(arguments, words, capsys):
    assert run(program, "gaiad", ["bench", *arguments]) != 0
    assert words in capsys.readouterr().err
