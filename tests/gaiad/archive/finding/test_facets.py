"""Facets that are added to are the facets that counting everything would give."""

import random

import pytest

from gaiad.archive.finding import facets
from gaiad.archive.finding.facets import FacetCache, load_facets, timeline
from gaiad.wire.schemas import Facets, Filters


def plain(found: Facets) -> dict[str, object]:
    """Names without regard to ASCII case: which spelling stands for a name is left open."""
    lowered = {name: {key.lower(): count for key, count in getattr(found, name).items()} for name in ("tags", "people")}
    return {
        **lowered,
        "models": found.models,
        "topics": found.topics,
        "rest": (found.packets, found.pages, found.first, found.last),
    }


@pytest.mark.parametrize("seed", range(5))
def test_added_facets_are_those_of_a_full_count(shelf, seed):
    pick, cache = random.Random(seed), FacetCache()
    for number in range(24):
        pages = shelf.packet(
            f"P{number}",
            [
                ("transcript", pick.choice(["Anna", "anna", "Bob", "Zoë", ""]), "words")
                for _ in range(pick.randint(0, 3))
            ],
            at=f"2025-11-{pick.randint(1, 28):02d}T00:00:00{pick.choice(['', '.250'])}+00:00",
            topic=pick.choice(["", "Lamp", "lamp"]),
            model=pick.choice(["", "Claude", "GPT"]),
            current_model=pick.choice(["", "Claude"]),
            tags=pick.sample(["x", "X", "y", "Ä", "ä"], 2),
        )
        if pages and pick.random() < 0.2:
            shelf.retire(pages)
        if pick.random() < 0.6:
            found = shelf.tenant.file.read(cache.get)
            assert plain(found) == plain(shelf.tenant.file.read(load_facets))
            assert list(found.people.values()) == sorted(found.people.values(), reverse=True)


def test_only_new_packets_are_counted_until_one_of_the_others_changes(shelf, monkeypatch):
    cache, counted = FacetCache(), []

    def spy(connection, after=0, hidden=()):
        counted.append(after)
        return load_facets(connection, after, hidden)

    monkeypatch.setattr(facets, "load_facets", spy)
    pages = shelf.packet("A", ["one"], tags=["x"])
    shelf.tenant.file.read(cache.get)
    shelf.packet("B", ["two"], tags=["x"])
    shelf.packet("C", ["three"], tags=["y"])
    assert shelf.tenant.file.read(cache.get).tags == {"x": 2, "y": 1}
    shelf.tenant.file.read(cache.get)
    assert counted == [0, 1]
    shelf.retire(pages)
    assert shelf.tenant.file.read(cache.get).pages == 2
    shelf.tenant.file.write(lambda c: c.execute("UPDATE packets SET topic = 'new' WHERE id = 1").rowcount)
    assert shelf.tenant.file.read(cache.get).topics == {"new": 1}
    assert counted == [0, 1, 0, 0]


def test_the_timeline_counts_names_and_shared_topics_and_each_count_is_what_its_filter_finds(shelf):
    def person(packet, *names):
        rows = [(packet, name) for name in names]
        shelf.tenant.file.write(
            lambda c: c.executemany(
                "INSERT INTO metadata SELECT id, 'person', ?2, NULL FROM packets WHERE packet_id = ?1", rows
            )
        )

    for name, topic, model in (("A", "Lamp", "gpt-4"), ("B", "Lamp", "gpt-4o"), ("C", "Lamplight", "gpt-4o")):
        shelf.packet(name, ["words"], topic=topic, model=model, tags=["x"])
    person("A", "Anna", "Assistant", "user")
    person("B", "Anna", "Bob")

    def counted(**filters):
        return shelf.tenant.file.read(lambda c: timeline(c, Filters(**filters)))

    found = counted()
    assert (found.people, found.topics, found.tags) == ({"Anna": 2, "Bob": 1}, {"Lamp": 2}, {"x": 3})
    for name, count in found.people.items():
        assert counted(people=[name.upper()]).packets == count
    for kind in ("topics", "models"):
        for name, count in getattr(found, kind).items():
            assert counted(**{kind: [f"={name}"]}).packets == count
    assert counted(models=["gpt-4"]).packets == 3  # a part of the name
