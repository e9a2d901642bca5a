"""README's table of routes is the daemon's own: none is missing or invented, and the owner's are named as such."""

import re
from pathlib import Path

from gaiad.intake.exchange import Route
from gaiad.intake.http import table

README = Path(__file__).parent.parent / "README.md"
ROW = re.compile(r"^\| (.+) \| (`(?:GET|POST) /.+) \|$", re.MULTILINE)
ROUTE = re.compile(r"`((?:GET|POST) /[\w/]+)`")


def told() -> dict[str, list[str]]:
    return {about: ROUTE.findall(routes) for about, routes in ROW.findall(README.read_text(encoding="utf-8"))}


def name_of(route: Route) -> str:
    return f"{route.method} {re.sub(r'{[a-z_]+}', 'ID', route.path)}"


def test_every_route_stands_in_the_readme_once() -> None:
    assert sorted(route for routes in told().values() for route in routes) == sorted(
        name_of(route) for route in table()
    )


def test_the_owners_routes_stand_together() -> None:
    assert sorted(told()["the owner's"]) == sorted(name_of(route) for route in table() if route.owner)
