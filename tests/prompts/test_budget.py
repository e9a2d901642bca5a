"""Limits of GCP 4.1: the numbers by hand, and what holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.errors import TokenBudgetError
from prompts.budget import check_identity, identity_limit, payload_limit, persona_limit, share, smallest_mtu, too_long
from prompts.packet import FieldReport


@pytest.mark.parametrize(("mtu", "limit"), [(4096, 245), (4266, 255), (4267, 256), (32768, 256), (100, 6), (16, 0)])
def test_identity_has_six_percent_and_256_at_most(mtu: int, limit: int) -> None:
    assert identity_limit(mtu) == limit


@pytest.mark.parametrize(
    ("mtu", "identity", "limit"), [(4096, 220, 116), (4096, 0, 122), (32768, 256, 128), (20, 30, 0)]
)
def test_persona_has_three_percent_of_what_remains_and_128_at_most(mtu: int, identity: int, limit: int) -> None:
    assert persona_limit(mtu, identity) == limit


@given(st.integers(0, 256))
def test_the_smallest_mtu_holds_the_identity_and_one_less_does_not(tokens: int) -> None:
    mtu = smallest_mtu(tokens)
    check_identity(tokens, mtu)
    if tokens:
        with pytest.raises(TokenBudgetError, match=f"the smallest MTU that does is {mtu}$"):
            check_identity(tokens, mtu - 1)


def test_an_identity_of_more_than_256_tokens_fits_no_mtu() -> None:
    with pytest.raises(TokenBudgetError, match="no MTU allows more than 256: shorten it by 44") as caught:
        check_identity(300, 32768)
    assert caught.value.exit_code == 1
    assert caught.value.fields == (("identity", 300, 256),)


def test_history_and_context_have_60_percent_of_what_the_fixed_fields_leave() -> None:
    assert payload_limit(mtu=1000, bare_tokens=250, prompt_tokens=50) == 480


def test_history_and_context_give_way_to_a_long_prompt() -> None:
    assert payload_limit(mtu=1000, bare_tokens=900, prompt_tokens=700) == 100
    assert payload_limit(mtu=1000, bare_tokens=1000, prompt_tokens=800) == 0
    assert payload_limit(mtu=1000, bare_tokens=1100, prompt_tokens=900) == 0


def test_without_context_history_has_all() -> None:
    assert share(480, history_tokens=9000, context_tokens=0) == (480, 0)


def test_context_has_a_third_and_what_history_does_not_need() -> None:
    assert share(480, history_tokens=9000, context_tokens=9000) == (320, 160)
    assert share(480, history_tokens=100, context_tokens=9000) == (100, 380)
    assert share(480, history_tokens=9000, context_tokens=40) == (440, 160)


@given(st.integers(0, 20000), st.integers(0, 40000), st.integers(0, 40000))
def test_shares_never_exceed_the_limit_and_context_gets_its_third(limit: int, history: int, context: int) -> None:
    shares = share(limit, history, context)
    assert shares.history >= 0
    assert min(shares.history, history) + min(shares.context, context) <= limit
    if context:
        assert min(shares.context, context) >= min(context, limit / 3)
    if history + context <= limit:
        assert shares.history >= history
        assert shares.context >= context


def test_the_error_is_one_line_with_every_fields_numbers() -> None:
    rows = [
        FieldReport(field="identity", limit=60, original_tokens=50, tokens=50, method="whole"),
        FieldReport(field="user_prompt", limit=700, original_tokens=900, tokens=900, method="whole"),
    ]
    error = too_long(1000, rows, "shorten it")
    assert error.message == (
        "the packet does not fit an MTU of 1000: user_prompt has 900 tokens and at most 700 fit (200 too many); "
        "shorten it [identity 50/60, user_prompt 900/700]"
    )
    assert error.fields == (("identity", 50, 60), ("user_prompt", 900, 700))
