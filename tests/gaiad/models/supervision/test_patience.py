import pytest

from gaiad.models.supervision.patience import Patience


def test_the_wait_doubles_up_to_the_longest():
    patience = Patience(first_backoff_s=0.5, longest_backoff_s=3.0)
    assert [patience.backoff_s(failures) for failures in (1, 2, 3, 4, 50)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("failures", [1, 5, 1000])
def test_however_often_it_failed_the_wait_is_finite(failures):
    assert 0 < Patience().backoff_s(failures) <= Patience().longest_backoff_s
