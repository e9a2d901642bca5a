"""The queue under what goes on beside it: pages rewritten while they are embedded, a bad vector, a close."""

import asyncio

from gaiad.archive.storing.text_index import index_pages, unindex_pages
from gaiad.ports import Call


def rewrite(shelf, page, old, new):
    """Give a page other words, as a reindex does: its row stays, its vector goes."""

    def write(connection):
        unindex_pages(connection, [(page, old, "", "")])
        connection.execute("DELETE FROM vectors WHERE page = ?", (page,))
        connection.execute("UPDATE pages SET text = ? WHERE id = ?", (new, page))
        index_pages(connection, [(page, new, "", "")])

    shelf.tenant.file.write(write)
    shelf.spaces.forget([page])


async def test_a_page_rewritten_while_it_is_embedded_waits_for_the_vector_of_its_new_words(
    shelf, embedder, monkeypatch
):
    (page, _) = shelf.packet("tp-1", ["the old words", "others"])
    embed = embedder.embed

    async def meanwhile(texts, call):
        if not embedder.texts:
            await asyncio.to_thread(rewrite, shelf, page, "the old words", "bread and butter")
        return await embed(texts, call)

    monkeypatch.setattr(embedder, "embed", meanwhile)
    assert await shelf.spaces.drain(embedder, Call(), 10) == 2
    assert shelf.spaces.count() == 1
    assert await shelf.embed_all(embedder) == 1
    found, cosines = shelf.spaces.current.search(embedder.vector("bread and butter"), 1)
    assert (found.tolist(), round(float(cosines[0]), 2)) == ([page], 1.0)
