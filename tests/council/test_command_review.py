"""A command is bound by its bytes, and only a clear review lets it through."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.execute_review import argv_sha256, read_review
from gaiad.base.errors import BadInput

ACCEPT = '{"verdict": "accept", "reason": "it only reads"}'
REJECT = '{"verdict": "reject", "reason": "it deletes what nobody asked for"}'


def test_the_hash_is_what_anyone_can_compute() -> None:
    script = "printf '%s\\0' ls -l 'my files' | sha256sum"
    out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert argv_sha256(["ls", "-l", "my files"]) == out.split()[0]
    with pytest.raises(BadInput, match="zero byte"):
        argv_sha256(["a\0b"])


ARGUMENTS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), min_size=1)


@given(ARGUMENTS, ARGUMENTS)
def test_different_arguments_have_different_hashes(one, other) -> None:
    assert (argv_sha256(one) == argv_sha256(other)) is (one == other)


@given(st.text(max_size=200))
def test_no_text_is_accepted_by_chance(text) -> None:
    assert read_review(text).verdict == "reject"


def test_a_review_that_is_fenced_or_cut_in_its_reason_is_read() -> None:
    assert read_review(f"```json\n{ACCEPT}\n```").verdict == "accept"
    assert (read_review(ACCEPT[:-5]).verdict, read_review(ACCEPT[:-5]).reason) == ("accept", "it only re")
    assert read_review(REJECT[:-5]).reason == "it deletes what nobody asked"
    assert read_review(ACCEPT[:38]).verdict == "reject", "it says next to nothing"
    assert read_review(ACCEPT + REJECT).verdict == "reject"
