import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaiad.base.errors import BadInput
from gaiad.ledger.chain import NOTHING_BEFORE, ChainHead, ChainRow, next_row, row_sha256, walk


def chain_of(count: int) -> list[ChainRow]:
    rows: list[ChainRow] = []
    for number in range(1, count + 1):
        head = ChainHead(rows[-1].number, rows[-1].sha256) if rows else ChainHead()
        rows.append(
            next_row(head, f"2025-12-01T00:00:{number % 60:02}Z", "council.vote", "local", "lite", {"n": number})
        )
    return rows


def head_of(rows: list[ChainRow]) -> ChainHead:
    return ChainHead(rows[-1].number, rows[-1].sha256)


def test_a_rows_hash_is_that_of_its_seven_lines() -> None:
    row = next_row(ChainHead(), "2025-12-01T00:00:00Z", "council.vote", "local", "lite", {"yes": True, "id": "ä"})
    lines = f"{NOTHING_BEFORE}\n1\n2025-12-01T00:00:00Z\ncouncil.vote\nlocal\nlite\n" + '{"id":"ä","yes":true}'
    assert row.sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_a_whole_chain_holds_and_names_its_head() -> None:
    rows = chain_of(20)
    verdict = walk(rows, head_of(rows), rows[4].sha256)
    assert (verdict.ok, verdict.rows, verdict.head_sha256) == (True, 20, rows[-1].sha256)
    assert (verdict.first_bad, verdict.problem) == (None, "")


def test_an_empty_chain_holds() -> None:
    assert walk([], ChainHead()).ok
    assert walk([]).head_sha256 == NOTHING_BEFORE


@pytest.mark.parametrize("field", ["at", "kind", "tenant", "actor", "body", "previous_sha256", "sha256"])
def test_an_altered_field_is_found_at_its_row(field: str) -> None:
    rows = chain_of(9)
    rows[4] = replace(rows[4], **{field: getattr(rows[4], field)[:-1] + "~"})
    assert walk(rows).first_bad == 5


def test_an_altered_row_with_its_hash_made_anew_is_found_at_the_next() -> None:
    rows = chain_of(9)
    forged = replace(rows[4], body='{"n":500}')
    rows[4] = replace(forged, sha256=row_sha256(forged))
    verdict = walk(rows)
    assert verdict.first_bad == 6
    assert "does not follow" in verdict.problem


def test_a_chain_written_anew_to_its_end_is_found_by_the_noted_head() -> None:
    rows = chain_of(9)
    noted = head_of(rows)
    forged: list[ChainRow] = rows[:4]
    for row in rows[4:]:
        forged.append(next_row(head_of(forged), row.at, row.kind, row.tenant, "prime", {"n": row.number}))
    assert walk(forged).ok
    assert walk(forged, noted).first_bad == 9
    assert "rewritten" in walk(forged, expected_sha256=noted.sha256).problem


@given(st.integers(0, 11), st.integers(1, 5))
def test_missing_rows_are_found_at_the_first_of_them(start: int, count: int) -> None:
    rows = chain_of(12)
    noted = head_of(rows)
    verdict = walk(rows[:start] + rows[start + count :], noted)
    assert (verdict.ok, verdict.first_bad) == (False, start + 1)
    assert "missing" in verdict.problem


@given(st.randoms(use_true_random=False))
def test_rows_in_another_order_are_found_at_the_first_that_moved(shuffling: random.Random) -> None:
    rows = chain_of(8)
    moved = shuffling.sample(rows, len(rows))
    renumbered = [replace(row, number=number) for number, row in enumerate(moved, 1)]
    first = next((n for n, (old, new) in enumerate(zip(rows, moved, strict=True), 1) if old != new), None)
    assert walk(renumbered).first_bad == first
    assert walk(moved).first_bad == first


def test_rows_after_the_noted_head_are_as_good_as_those_before() -> None:
    rows = chain_of(9)
    assert walk(rows, head_of(rows[:6])).ok


@pytest.mark.parametrize(
    ("kind", "tenant", "actor", "body", "message"),
    [
        ("Vote", "local", "lite", {}, "audit kind 'Vote'"),
        ("a.b.c", "local", "lite", {}, "at most two"),
        ("vote\n", "local", "lite", {}, "audit kind"),
        ("vote", "", "lite", {}, "audit tenant ''"),
        ("vote", "local", "li\nte", {}, "audit actor"),
        ("vote", "local", "x" * 201, {}, "1 to 200"),
        ("vote", "local", "lite", {"x": object()}, "audit body of vote"),
        ("vote", "local", "lite", {"x": "\ud800"}, "audit body of vote"),
        ("vote", "local", "lite", {"x": "y" * 1_048_576}, "keep a hash of it"),
    ],
)
def test_what_no_row_can_hold_is_refused(kind: str, tenant: str, actor: str, body: dict, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        next_row(ChainHead(), "2025-12-01T00:00:00Z", kind, tenant, actor, body)


def test_a_body_with_line_breaks_stays_on_one_line() -> None:
    row = next_row(ChainHead(), "2025-12-01T00:00:00Z", "vote", "local", "lite", {"why": "one\ntwo\u2028three"})
    assert "\n" not in row.body
