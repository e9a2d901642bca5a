"""The arguments a command is started with; what they do is tried in test_shell."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.config import load_config
from gaiad.base.errors import Unavailable
from router.channels.sandbox import Programs, find_programs, sandbox_arguments, shell_limits, shell_numbers, system_view

PROGRAMS = Programs("/b/bwrap", "/b/prlimit", "/b/nice")
LIMITS = shell_limits(load_config(environment={}).shell)


@given(argv=st.lists(st.text(min_size=1), min_size=1), as_root=st.booleans())
def test_the_command_stands_last_and_unchanged_behind_an_end_of_options(argv, as_root):
    made = sandbox_arguments(PROGRAMS, [], Path("/w"), argv, LIMITS, 9, as_root=as_root)
    assert made[-len(argv) :] == argv
    assert made[-len(argv) - 1] == "--"
    assert made[0] == "/b/nice"


def test_root_becomes_another_user_before_the_sandbox_is_made():
    made = sandbox_arguments(PROGRAMS, [], Path("/w"), ["ls"], LIMITS, 9, as_root=True)
    entry = next(index for index, word in enumerate(made) if word.endswith("root_entry.py"))
    assert entry < made.index("/b/bwrap") < made.index("--unshare-all")
    assert made[entry + 1 : entry + 3] == [str(LIMITS.numbers.sandbox.root_becomes), "/w"]
    plain = sandbox_arguments(PROGRAMS, [], Path("/w"), ["ls"], LIMITS, 9, as_root=False)
    assert not any("root_entry" in word for word in plain)


def test_programs_and_libraries_are_seen_read_only_and_nothing_else(tmp_path):
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib").mkdir()
    (tmp_path / "home").mkdir()
    view = system_view(shell_numbers().sandbox, tmp_path)
    assert view[:3] == ["--ro-bind", f"{tmp_path}/usr", "/usr"]
    assert view[3:9] == ["--symlink", "usr/bin", "/bin", "--ro-bind", f"{tmp_path}/lib", "/lib"]
    assert {word for word in view if word.startswith("--")} == {"--ro-bind", "--symlink", "--ro-bind-try"}
    assert not any("home" in word for word in view)


def test_a_missing_program_is_named_with_its_remedy(tmp_path):
    (tmp_path / "bwrap").write_text("")
    (tmp_path / "bwrap").chmod(0o700)
    with pytest.raises(Unavailable, match="prlimit is not installed; install util-linux"):
        find_programs(str(tmp_path))
