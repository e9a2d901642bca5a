"""Numbers within bounds as GBNF: digit by digit, since a grammar cannot count. Pure.

Decimals are written with at most six digits after the point, without an exponent when they have bounds.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from gaiad.models.grammar.gbnf_writer import BadGrammar

ANY_INTEGER = '"-"? ("0" | [1-9] [0-9]{0,14})'
ANY_NUMBER = f'{ANY_INTEGER} ("." [0-9]{{1,15}})? ([eE] [-+]? [0-9]{{1,2}})?'
_DIGITS = 6
_LARGEST = 10**15 - 1
_ANY_FRACTION = f'("." [0-9]{{1,{_DIGITS}}})?'


def integers(low: int | None, high: int | None) -> str:
    """Whole numbers from `low` to `high`, both included; None is no bound. Raises BadGrammar when there are none."""
    if low is None and high is None:
        return ANY_INTEGER
    low, high = _ends(low, high)
    if low > high:
        raise BadGrammar(f"no whole number lies between {low} and {high}; mend the bounds")
    parts = []
    if low < 0:
        parts.append(f'"-" {_whole(max(1, -high), -low)}')
    if high >= 0:
        parts.append(_whole(max(0, low), high))
    return _either(parts)


def decimals(low: Decimal | None, high: Decimal | None) -> str:
    """Numbers from `low` to `high`, both included. Raises BadGrammar when none with six decimals lies there."""
    if low is None and high is None:
        return ANY_NUMBER
    step = Decimal(1).scaleb(-_DIGITS)
    whole_low, whole_high = _ends(_floor(low), _ceiling(high))
    low = Decimal(whole_low) if low is None else low.quantize(step, ROUND_CEILING)
    high = Decimal(whole_high) if high is None else high.quantize(step, ROUND_FLOOR)
    if low > high:
        raise BadGrammar(f"no number with {_DIGITS} decimals lies between the bounds; widen them")
    parts = []
    if low < 0:
        parts.append(f'"-" {_positive(max(Decimal(0), -high), -low)}')
    if high >= 0:
        parts.append(_positive(max(Decimal(0), low), high))
    return _either(parts)


def _ends(low: int | None, high: int | None) -> tuple[int, int]:
    if max(abs(low or 0), abs(high or 0)) > 10 * _LARGEST:
        raise BadGrammar("a bound has more than 16 digits; give a smaller one or none")
    return (min(-_LARGEST, high or 0) if low is None else low, max(_LARGEST, low or 0) if high is None else high)


def _floor(value: Decimal | None) -> int | None:
    return None if value is None else int(value.to_integral_value(ROUND_FLOOR))


def _ceiling(value: Decimal | None) -> int | None:
    return None if value is None else int(value.to_integral_value(ROUND_CEILING))


def _either(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


# -- whole numbers from 0 up


def _whole(low: int, high: int) -> str:
    parts = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        parts.append(_between(str(first), str(min(high, 10**length - 1))))
    return _either(parts)


def _between(low: str, high: str) -> str:
    """Strings of digits of one length, in order."""
    if not low:
        return ""
    if set(low) == {"0"} and set(high) == {"9"}:
        return _free(len(low))
    if low[0] == high[0]:
        return f'"{low[0]}" {_between(low[1:], high[1:])}'.strip()
    rest, first, last = len(low) - 1, int(low[0]), int(high[0])
    parts = []
    if set(low[1:]) - {"0"}:
        parts.append(f'"{first}" {_between(low[1:], "9" * rest)}')
        first += 1
    upper = []
    if set(high[1:]) - {"9"}:
        upper.append(f'"{last}" {_between("0" * rest, high[1:])}')
        last -= 1
    if first <= last:
        parts.append(f"{_digit(first, last)} {_free(rest)}".strip())
    return _either([*parts, *upper])


def _free(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""


def _digit(low: int, high: int) -> str:
    return f'"{low}"' if low == high else f"[{low}-{high}]"


# -- decimals from 0 up


def _positive(low: Decimal, high: Decimal) -> str:
    (low_whole, low_rest), (high_whole, high_rest) = _split(low), _split(high)
    if low_whole == high_whole:
        return f'"{low_whole}" {_fraction_between(low_rest, high_rest)}'
    parts = []
    if set(low_rest) - {"0"}:
        parts.append(f'"{low_whole}" "." {_from(low_rest)}')
        low_whole += 1
    if low_whole <= high_whole - 1:
        parts.append(f"{_whole(low_whole, high_whole - 1)} {_ANY_FRACTION}")
    parts.append(f'"{high_whole}" {_fraction_to(high_rest)}')
    return _either(parts)


def _split(value: Decimal) -> tuple[int, str]:
    whole, _, rest = f"{value:.{_DIGITS}f}".partition(".")
    return int(whole), rest


def _fraction_between(low: str, high: str) -> str:
    return f'"." {_digits_between(low, high)}' if set(low) - {"0"} else _fraction_to(high)


def _fraction_to(high: str) -> str:
    return f'("." {_to(high, True)})?'


def _digits_between(low: str, high: str) -> str:
    """Digits after the point, at least one; `low` is not all zeros."""
    if low[0] == high[0]:
        below = not set(low[1:]) - {"0"}
        others = _to(high[1:], False) if below else _digits_between(low[1:], high[1:])
        return f'"{low[0]}" {others}'.strip()
    rest, first, last = len(low) - 1, int(low[0]), int(high[0])
    parts = [f'"{first}" {_from(low[1:])}'.strip()]
    if first + 1 <= last - 1:
        parts.append(f"{_digit(first + 1, last - 1)} {_open(rest)}".strip())
    return _either([*parts, f'"{last}" {_to(high[1:], False)}'.strip()])


def _open(count: int) -> str:
    return f"[0-9]{{0,{count}}}" if count else ""


def _from(low: str) -> str:
    """Digits after the point that are not below `low`."""
    if not set(low) - {"0"}:
        return _open(len(low))
    rest, first = len(low) - 1, int(low[0])
    parts = [f'"{first}" {_from(low[1:])}'.strip()]
    if first < 9:
        parts.append(f"{_digit(first + 1, 9)} {_open(rest)}".strip())
    return _either(parts)


def _to(high: str, needed: bool) -> str:
    """Digits after the point that are not above `high`; none at all when not `needed`."""
    if not high:
        return ""
    rest, last = len(high) - 1, int(high[0])
    parts = [f'"{last}" {_to(high[1:], False)}'.strip()]
    if last:
        parts.append(f"{_digit(0, last - 1)} {_open(rest)}".strip())
    return f"({' | '.join(parts)})" + ("" if needed else "?")
