"""The text index against its pages, and names counted for the query interface."""

from gaiad.archive.finding.facets import FacetCache, load_facets
from gaiad.archive.storing import records


def test_a_missing_and_a_surplus_entry_are_noticed_and_a_rebuild_mends_them(shelf):
    shelf.packet("tp-1", ["one kitten", "two kittens"])
    read, write = shelf.tenant.file.read, shelf.tenant.file.write
    assert read(records.check_text_index) == ""
    write(lambda c: records.unindex_pages(c, [(1, "one kitten", "", "")]))
    assert "1 active pages are missing" in read(records.check_text_index)
    write(lambda c: records.index_pages(c, [(99, "ghost", "", "")]))
    assert "1 entries have no active page" in read(records.check_text_index)
    write(records.rebuild_text_index)
    assert write(records.check_text_contents) == ""


def test_postings_that_do_not_match_the_text_are_noticed(shelf):
    shelf.packet("tp-1", ["one kitten"])

    def damage(connection):
        connection.execute("UPDATE pages SET text = 'one puppy' WHERE id = 1")

    shelf.tenant.file.write(damage)
    assert shelf.tenant.file.read(records.check_text_index) == ""
    assert "does not match" in shelf.tenant.file.write(records.check_text_contents)


def test_facets_count_packets_by_name(shelf):
    shelf.packet("tp-1", [("transcript", "Ada", "hello")], topic="pets", model="Claude", tags=["x"])
    shelf.packet(
        "tp-2", [("transcript", "Ada", "hi")], topic="pets", model="Claude", current_model="GPT", tags=["X", "y"]
    )
    facets = shelf.tenant.file.read(load_facets)
    assert facets.models == {"Claude": 2, "GPT": 1}
    assert facets.topics == {"pets": 2}
    assert {tag.lower(): count for tag, count in facets.tags.items()} == {"x": 2, "y": 1}
    assert facets.people == {"Ada": 2}
    assert (facets.packets, facets.first) == (2, "2025-11-01T00:00:00Z")


def test_cached_facets_follow_the_archive(shelf):
    cache = FacetCache()
    read = shelf.tenant.file.read
    assert read(cache.get).packets == 0
    shelf.packet("tp-1", ["a"])
    first = read(cache.get)
    assert first.packets == 1
    assert read(cache.get) is first
    shelf.tenant.file.write(lambda c: c.execute("UPDATE packets SET current = 0"))
    assert read(cache.get).packets == 0
