"""Sentences whose dates and numbers no calendar and no float holds as they stand are read all the same."""

from gaiad.research.assertions import read_assertion


def test_a_span_that_ends_on_a_leap_day_of_the_next_year_is_read() -> None:
    said = "The quarry is closed to visitors between December 20 and February 28."
    (when,) = read_assertion(said, "2024-06-01T10:00:00Z").dates
    assert (when.first, when.end, when.year) == ("2000-12-20", "2001-03-01", False)


def test_a_number_of_any_length_is_read() -> None:
    (short,) = read_assertion("The pump takes 12.45 amperes.").quantities
    assert short.step == 0.01
    (pi,) = read_assertion(f"The decimal expansion of pi is 3.{'1415926535' * 400}.").quantities
    assert 3.14 < pi.low < 3.15
    assert 0 < pi.step < 1e-200
