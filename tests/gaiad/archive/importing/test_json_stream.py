import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.importing.json_stream import Element, Unreadable, elements

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_records = st.lists(st.dictionaries(st.text(max_size=8), _values, max_size=4), max_size=6)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(data: bytes, size: int = 7, limit: int = 10_000_000) -> list[Element]:
    return list(elements(cut(data, size), limit))


@given(_records, st.integers(1, 64), st.booleans())
def test_every_record_comes_out_byte_for_byte_wherever_the_chunks_end(
    records: list[Any], size: int, ascii_only: bool
) -> None:
    texts = [json.dumps(record, ensure_ascii=ascii_only).encode() for record in records]
    array = b"[ " + b" ,\n".join(texts) + b" ]"
    assert [(each.key, each.raw) for each in read(array, size)] == [("", text) for text in texts]
    wrapped = b'{"version": {"a": [1]}, "the \\"list\\"": ' + array + b', "others": [[2], "x"]}'
    found = [(each.key, each.raw) for each in read(wrapped, size)]
    assert found == [*(('the \\"list\\"', text) for text in texts), ("others", b"[2]")]


def test_a_record_over_the_limit_is_told_and_skipped() -> None:
    long = b'{"a": "' + b"x" * 500 + b'"}'
    found = read(b'[{"b": 1}, ' + long + b', {"c": "]}"}]', limit=100)
    assert [each.raw for each in found] == [b'{"b": 1}', None, b'{"c": "]}"}']
    assert found[1].size >= 400


@pytest.mark.parametrize("broken", [b'[{"a": 1}', b'[{"a": "x', b"[", b'[{"a": 1}]]'])
def test_a_text_that_breaks_off_raises_after_what_was_whole(broken: bytes) -> None:
    with pytest.raises(Unreadable):
        read(broken)
