"""Months and weekdays as people write them in English, for all who read dates from words."""

_NAMES = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
MONTHS |= {name[:3]: number for number, name in enumerate(_NAMES, 1)} | {"sept": 9}
"""Full and short names, in lower case, to the number of the month."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
